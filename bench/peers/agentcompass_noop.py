"""The no-op work on AgentCompass, run by its own interpreter: python -m … TASKS CONCURRENCY REPORT

A benchmark that runs its tasks itself, in its host environment, where nothing is run; graded at
once, without the environment.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.own import Span, report


def define(tasks: int) -> str:
    """Register the benchmark; its name."""
    from agentcompass.benchmarks.config import RuntimeBenchmarkConfig
    from agentcompass.runtime import (
        BENCHMARKS,
        PreparedTask,
        RunResult,
        TaskInput,
        TaskOutput,
        TaskSpec,
        TaskStatus,
    )
    from agentcompass.runtime.base import HarnessFreeBenchmark

    @BENCHMARKS.register()
    class Constant(HarnessFreeBenchmark):
        id = "constant"
        description = "Constant tasks."
        config_class = RuntimeBenchmarkConfig

        def load_tasks(self, req: Any) -> list[Any]:
            return [
                TaskSpec(f"task-{number:06d}", "Say nothing.", "all", "")
                for number in range(1, tasks + 1)
            ]

        async def prepare_task(self, task: Any, env: Any, req: Any, plan: Any) -> Any:
            return PreparedTask(
                task_id=task.task_id,
                category=task.category,
                ground_truth=task.ground_truth,
                input=TaskInput(prompt=task.question),
                output=TaskOutput(answer="nothing"),
            )

        async def run_task(
            self, task: Any, prepared: Any, req: Any, plan: Any, env: Any = None
        ) -> Any:
            return RunResult(
                task_id=task.task_id,
                status=TaskStatus.COMPLETED,
                category=task.category,
                final_answer="",
                ground_truth=task.ground_truth,
            )

        async def evaluate(
            self, task: Any, prepared: Any, result: Any, req: Any, plan: Any, env: Any = None
        ) -> Any:
            return replace(result, metrics={"correct": result.final_answer == ""})

    return str(Constant.id)


def run(tasks: int, concurrency: int) -> None:
    """One evaluation over all tasks."""
    import agentcompass

    agentcompass.run_evaluation(
        benchmark=define(tasks),
        harness="none",
        model="no-model",
        environment="host_process",
        task_concurrency=concurrency,
        enable_analysis=False,
        results_dir=str(Path("results").absolute()),
        data_dir=str(Path("data").absolute()),
        progress="none",
        auto_install_dependencies=False,
    )


def main() -> None:
    tasks, concurrency, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    span = Span()
    run(tasks, concurrency)
    report(place, span.end())


if __name__ == "__main__":
    main()
