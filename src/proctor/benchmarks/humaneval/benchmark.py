"""Benchmark `humaneval`: the model writes a Python function, the data set's tests judge it.

Data: JSONL rows of HumanEval (Chen et al. 2021, "Evaluating Large Language Models Trained on
Code"), plain or compressed. The tests run in the environment, in a process that never runs the
answer's code; see docs/humaneval.md for the scheme and for what it does and does not prevent.
"""

import math
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from proctor.benchmarks.humaneval.extraction import Code, extract
from proctor.benchmarks.humaneval.grader import bundle
from proctor.benchmarks.humaneval.rows import Problem, read_problems
from proctor.benchmarks.one_call import ask_once
from proctor.benchmarks.table.source import find_source
from proctor.environments.contract import EnvironmentSession, ExecResult, Resources
from proctor.evals.contracts.benchmark import HarnessFreeBenchmark
from proctor.evals.contracts.harness import AttemptContext
from proctor.evals.contracts.result import Evaluation, RunResult
from proctor.evals.contracts.task import PreparedTask, Reference, TaskSpec
from proctor.evals.metrics.contract import MetricContract, MetricSpec
from proctor.kernel import jsontext
from proctor.kernel.errors import EvaluatorFault
from proctor.kernel.issues import Cause, Issue, Phase, Severity
from proctor.kernel.jsontext import JsonError

INSTRUCTION = (
    "Complete the Python function below. Use only the standard library. "
    "Answer with the complete function in one fenced code block."
)
METRIC = "passed"
MAX_ANSWER_CHARS = 500_000
WALL_FACTOR = 4
"""Clock seconds a grading may take for each second of processor time that it may take."""
_EXEC_MARGIN_S = 15.0
_CHECKER_MEMORY_MB = 128
_OUTCOMES = frozenset(["passed", "failed", "raised", "timeout", "ended"])


class HumanEvalOptions(BaseModel):
    """Options of `humaneval`.

    - `instruction`: what precedes the prompt, which is then put into a code block; empty for the
      bare prompt, to be completed.
    - `time_limit_s`: processor seconds of one grading, default 5; four times as long by the
      clock, so that a busy machine does not fail a right answer.
    - `memory_limit_mb`: address space of the answer's process, in MiB, default 1024.
    - `python`: the environment's Python (3.8 or newer); empty: `python3`, and in an environment
      without isolation the interpreter that runs proctor.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    instruction: str = INSTRUCTION
    time_limit_s: Annotated[float, Field(ge=1, le=3_600)] = 5.0
    memory_limit_mb: Annotated[int, Field(ge=256, le=1_048_576)] = 1024
    python: str = ""


class HumanEval(HarnessFreeBenchmark):
    """Hand-written Python problems, judged by running their tests.

    Metric `passed`. Graded in a newly opened environment (mode `fresh`) or in the task's own
    (`reuse`). With harness `none`, one model call per attempt.
    """

    id = "humaneval"
    Options = HumanEvalOptions
    evaluation_modes = ("fresh", "reuse")

    def __init__(self, options: HumanEvalOptions | None = None, data: Path | None = None) -> None:
        super().__init__(options or HumanEvalOptions(), data)
        self.options: HumanEvalOptions

    def load_tasks(self) -> list[TaskSpec]:
        """One task a row, in file order. Raises DataError listing every problem."""
        file = find_source(self.data, self.id, ("jsonl",))
        return [self._task(problem) for problem in read_problems(file)]

    def metrics(self) -> MetricContract:
        """`passed`: 1 when all tests of the task pass."""
        return MetricContract((MetricSpec(METRIC),), METRIC)

    def grading_settings(self) -> dict[str, Any]:
        """The limits of a grading."""
        options = self.options
        return {
            "time_limit_s": options.time_limit_s,
            "memory_limit_mb": options.memory_limit_mb,
            "python": options.python,
        }

    async def run_task(
        self, prepared: PreparedTask, session: EnvironmentSession, context: AttemptContext
    ) -> RunResult:
        """Ask the model once."""
        return await ask_once(prepared, context)

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        """Run the task's tests against the answer, inside `session`."""
        answer, problem = result.final_answer, prepared.task.data
        if answer is None:
            return Evaluation(unavailable={METRIC: "there is no answer"})
        if session is None or not isinstance(problem, Problem):
            raise EvaluatorFault("humaneval grades in an environment, and there is none")
        if not isinstance(answer, str):
            return _unparsed("the answer is not text")
        if len(answer) > MAX_ANSWER_CHARS:
            return _unparsed(f"the answer has more than {MAX_ANSWER_CHARS} characters")
        code = extract(answer, problem.entry_point)
        if not code.text.strip():
            return _unparsed("there is no code in the answer")
        return await self._graded(problem, code, session)

    async def _graded(
        self, problem: Problem, code: Code, session: EnvironmentSession
    ) -> Evaluation:
        await session.kill_processes()
        options, nonce = self.options, secrets.token_hex(16)
        wall_s = options.time_limit_s * WALL_FACTOR
        request = {
            "nonce": nonce,
            "prompt": problem.prompt,
            "test": problem.test,
            "entry_point": problem.entry_point,
            "answer": code.text,
            "whole": code.whole,
            "cpu_s": math.ceil(options.time_limit_s),
            "wall_s": wall_s,
            "memory_bytes": options.memory_limit_mb * 1024 * 1024,
        }
        done = await session.exec(
            [self._python(session), "-I", "-S", "-c", bundle.source()],
            stdin=jsontext.dumps(request).encode("utf-8"),
            timeout_s=wall_s + _EXEC_MARGIN_S,
            output_limit_bytes=100_000,
            resources=Resources(memory_mb=options.memory_limit_mb + _CHECKER_MEMORY_MB),
        )
        return _evaluation(done, nonce)

    def _python(self, session: EnvironmentSession) -> str:
        if self.options.python:
            return self.options.python
        return "python3" if session.isolated else sys.executable

    def _task(self, problem: Problem) -> TaskSpec:
        question = problem.prompt
        if self.options.instruction:
            question = f"{self.options.instruction}\n\n```python\n{problem.prompt.rstrip()}\n```\n"
        reference = None if problem.solution is None else Reference(answer=problem.solution)
        return TaskSpec(
            id=problem.id,
            input=question,
            target={"entry_point": problem.entry_point, "test": problem.test},
            reference=reference,
            data=problem,
        )


def _evaluation(done: ExecResult, nonce: str) -> Evaluation:
    verdict = _verdict(done.stdout, nonce)
    if verdict is None:
        return _not_graded(done)
    outcome = verdict.get("outcome")
    evidence = {
        "outcome": outcome,
        "detail": verdict.get("detail"),
        "confined": verdict.get("confined"),
    }
    if outcome not in _OUTCOMES:
        reason = f"the task's tests cannot run: {verdict.get('detail')}"
        return _error("bad_test", reason, evidence)
    return Evaluation(metrics={METRIC: int(outcome == "passed")}, evidence=evidence)


def _verdict(stdout: str, nonce: str) -> dict[str, Any] | None:
    """The checker's line: only it knows the nonce, and it writes one line."""
    lines = [line for line in stdout.split("\n") if line.startswith(nonce)]
    if len(lines) != 1:
        return None
    try:
        verdict = jsontext.loads(lines[0][len(nonce) :])
    except JsonError:
        return None
    return verdict if isinstance(verdict, dict) else None


def _not_graded(done: ExecResult) -> Evaluation:
    if done.exit_code in (126, 127):
        raise EvaluatorFault(
            f"the environment cannot run Python: {done.stderr.strip()[:300]}",
            code="no_python",
            permanent=True,
            hint="use an environment with python3 3.8 or newer, or set -p benchmark.python=PATH",
        )
    how = "was killed at its time limit" if done.timed_out else f"exit code {done.exit_code}"
    reason = f"the grading process gave no verdict ({how})"
    return _error("no_verdict", reason, {"stderr": done.stderr[-2_000:]})


def _error(code: str, reason: str, evidence: dict[str, Any]) -> Evaluation:
    issue = Issue(Severity.ERROR, Phase.EVALUATE, Cause.EVALUATOR, code, reason)
    return Evaluation(unavailable={METRIC: reason}, evidence=evidence, issues=(issue,))


def _unparsed(reason: str) -> Evaluation:
    issue = Issue(Severity.WARNING, Phase.EVALUATE, Cause.AGENT, "unparsed_answer", reason)
    return Evaluation(metrics={METRIC: 0}, issues=(issue,))
