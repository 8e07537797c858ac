"""What a try notes while it goes: issues, and the working time of each phase."""

from collections.abc import Iterator
from contextlib import contextmanager

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

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Time a phase and turn what it raises into a PhaseFailed with its cause.

        Evidence that cannot be written is nobody's fault in the attempt: it stops the run.
        """
        self.last = phase
        start = self._clock.monotonic()
        try:
            yield
        except (PhaseFailed, StorageError):
            raise
        except Exception as error:
            raise failed(phase, error) from error
        finally:
            spent = self._job.phases_s
            took = self._clock.monotonic() - start
            spent[phase.value] = spent.get(phase.value, 0.0) + took
