"""Inspect AI: python -m bench.resume.inspect_case prepare|resume TASKS REPORT

`prepare` evaluates all samples, of which the last fails; `resume` retries the log.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

import sys
from pathlib import Path
from typing import Any

from bench.own import Span, report

TASK = """
from pathlib import Path
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, ModelUsage
from inspect_ai.scorer import CORRECT, Score, accuracy, scorer
from inspect_ai.solver import generate, solver

@scorer(metrics=[accuracy()])
def always_right():
    async def score(state, target):
        return Score(value=CORRECT, answer=state.output.completion)
    return score

@solver
def answer():
    async def solve(state, generate):
        if state.sample_id == "task-{tasks:06d}" and not Path("second").exists():
            raise RuntimeError("the last one is left")
        state.output = ModelOutput.from_content("mockllm", "Nothing.")
        return state
    return solve

@task
def noop():
    samples = [Sample(id=f"task-{{n:06d}}", input="Say nothing.", target="")
               for n in range(1, {tasks} + 1)]
    return Task(dataset=MemoryDataset(samples), solver=answer(), scorer=always_right())
"""


def prepare(tasks: int) -> None:
    """A log of which one sample is left."""
    from inspect_ai import eval

    Path("noop_task.py").write_text(TASK.format(tasks=tasks), "utf-8")
    (log,) = eval("noop_task.py", model="mockllm/model", max_samples=64, log_dir="results",
                  display="none", fail_on_error=True, continue_on_fail=True)  # fmt: skip
    if log.status != "error":
        raise SystemExit(f"the evaluation should have failed: {log.status}")


def resume(tasks: int) -> None:
    """Retry it."""
    from inspect_ai import eval_retry

    Path("second").touch()
    (left,) = Path("results").glob("*.eval")
    result: Any = eval_retry(str(left), log_dir="results", display="none")
    (log,) = result
    if log.status != "success" or log.results.completed_samples != tasks:
        raise SystemExit(f"the retry went wrong: {log.status}: {str(log.error)[:500]}")


def main() -> None:
    step, tasks, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    span = Span()
    (prepare if step == "prepare" else resume)(tasks)
    report(place, span.end())


if __name__ == "__main__":
    main()
