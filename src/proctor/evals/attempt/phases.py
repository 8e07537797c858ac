"""What a try notes while it goes: issues, and the working time of each phase."""

from types import TracebackType

from proctor.evals.attempt.blame import PhaseFailed, failed
from proctor.evals.attempt.job import AttemptJob
from proctor.kernel.clock import Clock
from proctor.kernel.errors import StorageError
from proctor.kernel.issues import Cause, Issue, Phase, Severity


class PhaseLog:
    """The issues of one try, and its phases' times (seconds, added to the job)."""

    def __init__(self, clock: Clock, job: AttemptJob) -> None:
        self._clock = clock
        self._job = job
        self.issues: list[Issue] = []
        self.last = Phase.PLAN
        """The phase that was entered last."""

    def note(self, severity: Severity, phase: Phase, cause: Cause, code: str, message: str) -> None:
        """Record an issue."""
        self.issues.append(Issue(severity, phase, cause, code, message))

    def phase(self, phase: Phase) -> "Timed":
        """Time a phase and turn what it raises into a PhaseFailed with its cause.

        Evidence that cannot be written is nobody's fault in the attempt: it stops the run.
        """
        self.last = phase
        return Timed(self._clock, self._job.phases_s, phase)


class Timed:
    """One entered phase. A class: every attempt enters eight, and a generator costs thrice that."""

    __slots__ = ("_clock", "_phase", "_spent", "_start")

    def __init__(self, clock: Clock, spent: dict[str, float], phase: Phase) -> None:
        self._clock = clock
        self._spent = spent
        self._phase = phase
        self._start = 0.0

    def __enter__(self) -> None:
        self._start = self._clock.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        took = self._clock.monotonic() - self._start
        name = self._phase.value
        self._spent[name] = self._spent.get(name, 0.0) + took
        if isinstance(error, Exception) and not isinstance(error, (PhaseFailed, StorageError)):
            raise failed(self._phase, error) from error
