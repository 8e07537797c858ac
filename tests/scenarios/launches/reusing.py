"""Runs whose inputs a test can change one by one, and what was done with earlier work."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel
from tests.scenarios.runtime.plugins import Agent, Answers
from tests.scenarios.runtime.plugins import register as registered
from tests.scenarios.runtime.runs import Outcome

import proctor
from proctor.environments.local import LocalEnvironment, LocalOptions
from proctor.evals.contracts import Evaluation, MetricContract, MetricSpec, TaskSpec
from proctor.evals.progress import Progress
from proctor.models.contract import CallContext, Model, ModelReply, Usage

_refs: dict[type[Any], str] = {}


def register(component: type[Any]) -> str:
    """The same reference each time, so that the same plug-in is the same component."""
    if component not in _refs:
        _refs[component] = registered(component)
    return _refs[component]


class Quiz(Answers):
    """Rows of `data`: `id TAB question TAB target` lines. `scorer` is of the grading."""

    id = "quiz"
    data_required = True
    graded: ClassVar[Counter[str]] = Counter()

    class Options(BaseModel):
        scorer: str = "exact"
        mode: str = "none"

    def load_tasks(self) -> list[TaskSpec]:
        rows = [line.split("\t") for line in self.data.read_text("utf-8").splitlines()]
        hint = self.data.parent / "hint.txt"
        files = {"hint.txt": hint} if hint.exists() else {}
        return [
            TaskSpec(name, question, target, files=files, evaluation_mode=self.options.mode)
            for name, question, target in rows
        ]

    def metrics(self) -> MetricContract:
        return MetricContract((MetricSpec("right"),), "right")

    def grading_settings(self) -> dict[str, Any]:
        return {"scorer": self.options.scorer}

    async def evaluate(self, prepared: Any, result: Any, session: Any) -> Evaluation:
        Quiz.graded[prepared.task.id] += 1
        answer, target = str(result.final_answer), prepared.task.target
        if self.options.scorer == "crash" or answer == "unreadable":
            raise RuntimeError("the scorer crashed")
        right = target in answer if self.options.scorer == "includes" else answer == target
        return Evaluation(metrics={"right": right})


class Quizzed(Agent):
    """Answers `<question> answered`; counts its calls."""

    id = "quizzed"
    calls: ClassVar[Counter[str]] = Counter()

    class Options(BaseModel):
        servers: list[str] = []
        answers: dict[str, str] = {}

    async def act(self, session: Any, task: Any, context: Any) -> Any:
        Quizzed.calls[context.task_id] += 1
        answer = self.options.answers.get(context.task_id, "yes")
        if answer == "lost":
            raise proctor.EnvironmentFault("the gateway is gone")
        if context.model is not None:
            return (await context.model.complete([])).text
        return answer


class Warm(Model):
    """A model with a temperature."""

    id = "warm"

    class Options(BaseModel):
        temperature: float = 0.0

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "temperature": self.options.temperature}

    async def complete(
        self, messages: Any, *, context: CallContext, **parameters: Any
    ) -> ModelReply:
        return ModelReply("yes", Usage(requests=1))


class Place(LocalEnvironment):
    id = "place"

    class Options(LocalOptions):
        size: int = 1


class Quizzes:
    """Makes requests over one data file, runs them, and says what ran."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.data = place / "rows.tsv"
        self.write({f"t{n}": "yes" for n in range(1, 11)})
        Quizzed.calls.clear()
        Quiz.graded.clear()

    def write(self, targets: Mapping[str, str], question: str = "what") -> None:
        lines = [f"{name}\t{question} {name}\t{target}\n" for name, target in targets.items()]
        self.data.write_text("".join(lines), "utf-8")

    def request(self, **changes: Any) -> dict[str, Any]:
        """A request; keywords `benchmark`, `harness`, `environment`, `model` are options, `k`,
        `limit`, `seed` what they say, others are of `execution`."""
        model = changes.pop("model", None)
        k, limit, seed = (changes.pop(name, None) for name in ("k", "limit", "seed"))
        selection = {"limit": limit, "shuffle_seed": seed}
        benchmark = {"id": register(Quiz), "data": str(self.data)}
        made = {
            "benchmark": {**benchmark, **changes.pop("benchmark", {})},
            "harness": {"id": register(Quizzed), **changes.pop("harness", {})},
            "environment": {"id": register(Place), **changes.pop("environment", {})},
            "selection": {key: value for key, value in selection.items() if value is not None},
            "execution": {"attempts": {"k": k or 1}, **changes},
            "runtime": {"results_dir": str(self.place / "results"), "task_concurrency": 4},
        }
        if model is not None:
            made["model"] = {"id": "warm:one", **model}
        return made

    def run(self, earlier: proctor.Earlier | None = None, **changes: Any) -> "Ran":
        Quizzed.calls.clear()
        Quiz.graded.clear()
        progress = Progress()
        running = proctor.arun(self.request(**changes), earlier=earlier, progress=progress)
        return Ran(asyncio.run(running), progress)

    def resume(self, run_dir: str | Path) -> "Ran":
        return self._ran(proctor.aresume, run_dir)

    def rescore(self, run_dir: str | Path, **changes: Any) -> "Ran":
        return self._ran(proctor.arescore, run_dir, changes=changes)

    def _ran(self, function: Any, run_dir: str | Path, **options: Any) -> "Ran":
        Quizzed.calls.clear()
        Quiz.graded.clear()
        progress = Progress()
        return Ran(asyncio.run(function(run_dir, progress=progress, **options)), progress)


class Ran(Outcome):
    """An outcome with what was done for it."""

    def __init__(self, report: Any, progress: Progress) -> None:
        super().__init__(report)
        object.__setattr__(self, "called", dict(Quizzed.calls))
        object.__setattr__(self, "graded", dict(Quiz.graded))
        object.__setattr__(self, "notes", list(progress.view.notes) if progress.view else [])

    called: dict[str, int]
    graded: dict[str, int]
    notes: list[str]

    @property
    def plan(self) -> dict[str, Any]:
        """What was decided about earlier work, as the log has it."""
        return next(event for event in self.events if event["event"] == "run.resumed")


def tree(folder: str | Path) -> dict[str, tuple[bytes, int, int]]:
    """Everything below `folder`: bytes and mode, of files also the time of the last change."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else b"",
            path.lstat().st_mode,
            path.lstat().st_mtime_ns if path.is_file() else 0,
        )
        for path in sorted(Path(folder).rglob("*"))
    }
