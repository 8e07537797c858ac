"""What a run is doing right now. The runtime only counts; renderers read when they like."""

import threading
from collections import Counter, deque
from dataclasses import dataclass, field

from proctor.kernel.clock import Clock
from proctor.kernel.issues import Issue, Severity
from proctor.models.contract import Usage

RECENT_ISSUES = 5


@dataclass(slots=True)
class RunView:
    """The live state of one request. Numbers are of tasks unless they say otherwise."""

    name: str
    run_dir: str
    tasks: int
    attempts: int
    """Planned attempts, tasks × k; a strategy may need fewer."""
    started: float
    k: int = 1
    running: int = 0
    waiting: int = 0
    """Tasks in back-off before a retry."""
    finished: Counter[str] = field(default_factory=Counter)
    """Finished tasks by state: normal, error, fatal."""
    attempts_done: int = 0
    attempts_reused: int = 0
    retries: int = 0
    usage: Usage = Usage()
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT_ISSUES))
    issue_codes: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """The first issue of each code, for people."""
    score_sum: float = 0.0
    scored: int = 0
    """Attempts with a valid primary observation, and their sum."""
    status: str = "running"
    resumed_tasks: int = 0
    notes: list[str] = field(default_factory=list)
    """Said once, before anything runs: cautions, and what earlier work is taken over."""

    @property
    def done(self) -> int:
        """Finished tasks."""
        return self.finished.total()

    def saw(
        self, task_id: str, attempt: int, issues: tuple[Issue, ...], *, final: bool = True
    ) -> None:
        """Count the issues of an attempt's record; keep the last few for people, those of dropped
        tries (`final` false) too."""
        for issue in issues:
            if final:
                self.issue_codes[issue.code] += 1
            if issue.severity is Severity.WARNING and issue.code in self.examples:
                continue
            message = issue.message.splitlines()[0][:200] if issue.message else issue.code
            text = f"{task_id} #{attempt}: {issue.phase.value}: {message}"
            self.examples.setdefault(issue.code, text)
            if issue.severity is not Severity.WARNING:
                self.recent.append(text)

    def rate(self, now: float) -> float | None:
        """Attempts per second of this execution, None before the first."""
        elapsed = now - self.started
        return self.attempts_done / elapsed if self.attempts_done and elapsed > 0 else None

    def eta_s(self, now: float) -> float | None:
        """Seconds until all tasks are done at the present rate, None when unknown."""
        here = self.done - self.resumed_tasks
        elapsed = now - self.started
        left = self.tasks - self.done
        return elapsed / here * left if here > 0 and elapsed > 0 else None


class Progress:
    """Where the runtime announces its views; a renderer waits for it in its own thread."""

    def __init__(self) -> None:
        self.views: list[RunView] = []
        self.planned: list[str] = []
        """The names of all requests of a launch, in order."""
        self.unprepared: list[tuple[str, str]] = []
        """The names of requests of a launch that cannot run, and why, as it turns out."""
        self.clock: Clock | None = None
        self.finished = threading.Event()
        self.changed = threading.Event()

    @property
    def view(self) -> RunView | None:
        """The first request's view, None before it is prepared."""
        return self.views[0] if self.views else None

    def start(self, view: RunView, clock: Clock) -> None:
        """A request has been prepared and its tasks are about to run."""
        self.clock = clock
        self.views.append(view)
        self.changed.set()

    def cannot_run(self, name: str, error: str) -> None:
        """A request of a launch was not prepared: it has no view."""
        self.unprepared.append((name, error))
        self.changed.set()

    def stop(self) -> None:
        """Everything has ended."""
        self.finished.set()
        self.changed.set()
