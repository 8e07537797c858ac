"""Work that is nothing: tasks that are all the same, graded by comparing two texts."""

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts import (
    AttemptContext,
    Evaluation,
    HarnessFreeBenchmark,
    MetricContract,
    MetricSpec,
    PreparedTask,
    RunResult,
    TaskSpec,
)

QUESTION = "Say nothing."
MODEL_ANSWER = "Nothing."


class ConstantOptions(BaseModel):
    """`tasks`: how many. `target`: what the answer must be."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(default=200, ge=1)
    target: str = ""


class Constant(HarnessFreeBenchmark):
    """Constant tasks; with harness `none` each asks the model once."""

    id = "constant"
    Options = ConstantOptions
    evaluation_modes: ClassVar[tuple[str, ...]] = ("reuse", "none")
    data_required = False

    def load_tasks(self) -> Iterable[TaskSpec]:
        options: ConstantOptions = self.options
        return [
            TaskSpec(f"task-{number:06d}", QUESTION, options.target)
            for number in range(1, options.tasks + 1)
        ]

    def metrics(self) -> MetricContract:
        return MetricContract((MetricSpec("same"),), "same")

    async def run_task(
        self, prepared: PreparedTask, session: EnvironmentSession, context: AttemptContext
    ) -> RunResult:
        assert context.model is not None
        reply = await context.model.complete([{"role": "user", "content": QUESTION}])
        return RunResult(final_answer=reply.text, usage=reply.usage)

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        return Evaluation(metrics={"same": result.final_answer == prepared.task.target})


def request(tasks: int, concurrency: int, mode: str, results: str) -> dict[str, Any]:
    """The run request of a case. Mode `model` is mode `none` with one call of a scripted model,
    read from `rules.yaml` in the results directory's parent."""
    benchmark: dict[str, Any] = {"id": "bench.noop_work:Constant", "tasks": tasks}
    if mode == "model":
        benchmark["target"] = MODEL_ANSWER
    return {
        "benchmark": benchmark,
        "harness": "none" if mode == "model" else "nop",
        **({"model": "scripted:rules.yaml"} if mode == "model" else {}),
        "environment": "local",
        "execution": {"evaluation_mode": "none" if mode == "model" else mode},
        "runtime": {"results_dir": results, "task_concurrency": concurrency},
    }
