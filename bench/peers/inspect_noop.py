"""The no-op work on Inspect AI, run by its own interpreter: python -m … TASKS CONCURRENCY REPORT

One call of its mock model per sample, no sandbox, a scorer that answers at once. The answer brings
its token counts along: to count them the mock model would fetch a vocabulary from the network.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

import sys
from pathlib import Path
from typing import Any

from bench.own import Span, report


def run(tasks: int, concurrency: int) -> None:
    """One evaluation over all samples."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import CORRECT, Score, accuracy, scorer
    from inspect_ai.solver import generate

    @scorer(metrics=[accuracy()])
    def always_right() -> Any:
        async def score(state: Any, target: Any) -> Any:
            return Score(value=CORRECT, answer=state.output.completion)

        return score

    def answer(*_: Any) -> Any:
        output = ModelOutput.from_content("mockllm", "Nothing.")
        output.usage = ModelUsage(input_tokens=4, output_tokens=2, total_tokens=6)
        return output

    samples = [
        Sample(id=f"task-{number:06d}", input="Say nothing.", target="")
        for number in range(1, tasks + 1)
    ]
    task = Task(
        name="noop", dataset=MemoryDataset(samples), solver=generate(), scorer=always_right()
    )
    (log,) = eval(
        task,
        model=get_model("mockllm/model", custom_outputs=answer),
        max_samples=concurrency,
        max_connections=concurrency,
        log_dir="results",
        display="none",
    )
    if log.status != "success" or log.results.completed_samples != tasks:
        raise SystemExit(f"the evaluation went wrong: {log.status}: {str(log.error)[:500]}")
    if not list(Path("results").iterdir()):
        raise SystemExit("the evaluation left no log")


def main() -> None:
    tasks, concurrency, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    span = Span()
    run(tasks, concurrency)
    report(place, span.end())


if __name__ == "__main__":
    main()
