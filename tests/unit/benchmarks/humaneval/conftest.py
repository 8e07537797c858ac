"""Grading answers for real: a `local` session, the environment's Python, both processes."""

import asyncio
from pathlib import Path

import pytest

from proctor.benchmarks.humaneval import HumanEval, HumanEvalOptions
from proctor.benchmarks.humaneval.rows import Problem
from proctor.environments.contract import EnvironmentSpec
from proctor.environments.local import LocalEnvironment
from proctor.evals.contracts import PreparedTask, RunResult

DOUBLE = Problem(
    id="double",
    prompt='def double(x):\n    """Twice the number x."""\n',
    entry_point="double",
    test=(
        "def check(candidate):\n"
        "    assert candidate(2) == 4\n"
        "    assert candidate(-7) == -14\n"
        "    assert candidate(0.5) == 1.0\n"
    ),
    solution="    return x + x\n",
)


class Grader:
    """`grader(answer, …)` gives the Evaluations, graded side by side."""

    def __init__(self, environment=None, time_limit_s=1, **options):
        self.environment = environment or LocalEnvironment()
        self.benchmark = HumanEval(HumanEvalOptions(time_limit_s=time_limit_s, **options))

    async def one(self, problem, answer, gate):
        task = self.benchmark._task(problem)
        async with gate:
            session = await self.environment.open(EnvironmentSpec(), {"run": "test"})
            try:
                prepared = PreparedTask(task, task.input)
                return await self.benchmark.evaluate(
                    prepared, RunResult(final_answer=answer), session
                )
            finally:
                await session.close()

    def pairs(self, pairs, at_once=2):
        async def run():
            gate = asyncio.Semaphore(at_once)
            return await asyncio.gather(*(self.one(p, a, gate) for p, a in pairs))

        return asyncio.run(run())

    def __call__(self, answer, problem=DOUBLE):
        return self.pairs([(problem, answer)])[0]


@pytest.fixture
def grader():
    return Grader()


@pytest.fixture
def double():
    return DOUBLE


@pytest.fixture
def new_grader():
    return Grader


@pytest.fixture
def human_eval(shared_data) -> Path:
    return shared_data / "human_eval"
