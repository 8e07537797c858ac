"""AgentCompass: python -m bench.resume.agentcompass_case prepare|resume TASKS REPORT

`prepare` runs all tasks; `resume` reuses that run. A failed task would be reused like the others:
none is left to run, which is less work than ours does.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

import sys
from pathlib import Path
from typing import Any

from bench.own import Span, report
from bench.peers import agentcompass_noop

ran: list[str] = []


def run(tasks: int, *, reuse: bool) -> Any:
    """One evaluation; `ran` lists the tasks that ran."""
    import agentcompass
    from agentcompass.runtime.base import HarnessFreeBenchmark

    name = agentcompass_noop.define(tasks)
    (benchmark,) = (c for c in HarnessFreeBenchmark.__subclasses__() if c.id == name)
    original = benchmark.run_task

    async def run_task(self: Any, task: Any, *args: Any, **named: Any) -> Any:
        ran.append(task.task_id)
        return await original(self, task, *args, **named)

    benchmark.run_task = run_task
    return agentcompass.run_evaluation(
        benchmark=name,
        harness="none",
        model="no-model",
        environment="host_process",
        task_concurrency=16,
        enable_analysis=False,
        results_dir=str(Path("results").absolute()),
        data_dir=str(Path("data").absolute()),
        progress="none",
        auto_install_dependencies=False,
        reuse=reuse,
    )


def main() -> None:
    step, tasks, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    span = Span()
    run(tasks, reuse=step == "resume")
    if len(ran) != (tasks if step == "prepare" else 0):
        raise SystemExit(f"{step}: {len(ran)} tasks ran")
    report(place, span.end())


if __name__ == "__main__":
    main()
