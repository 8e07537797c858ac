"""Everything proctor raises on purpose.

    ProctorError
    ├── UsageError               the request cannot run; nothing ran (exit 2)
    │   ├── UnknownComponent       no such benchmark, harness, …; nearest names given
    │   ├── BrokenComponent        a plug-in that cannot be imported or breaks its contract
    │   ├── OptionError            an option of a component or request
    │   ├── DataError              the data cannot be loaded; all problems listed
    │   ├── NothingSelected        0 tasks selected
    │   ├── RunDirectoryError      a run directory that cannot be used as asked
    │   └── RunIsLive              another process owns the run directory
    ├── Stopped                  stopped on request before anything ran (exit 130 or 143)
    ├── StorageError             evidence could not be written: the run stops, resumable
    └── Fault                    something failed while running; carries its cause
        ├── EnvironmentFault       the sandbox: open, exec, transfer, vanished
        ├── ModelFault             the model endpoint
        ├── AgentFault             the agent or harness
        ├── BenchmarkFault         preparing or collecting
        ├── EvaluatorFault         grading
        └── RuntimeFault           proctor itself

The docstring of a class is its default message.
"""

from collections.abc import Sequence
from typing import ClassVar

from proctor.kernel.issues import Cause


class ProctorError(Exception):
    """Something went wrong in proctor."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class UsageError(ProctorError):
    """The request cannot run as given."""

    code = "usage"


class UnknownComponent(UsageError):
    """No component has this name."""

    code = "unknown_component"


class BrokenComponent(UsageError):
    """A component cannot be used."""

    code = "broken_component"


class OptionError(UsageError):
    """An option is not valid."""

    code = "option"


class DataError(UsageError):
    """The data cannot be loaded."""

    code = "data"

    def __init__(
        self,
        message: str | None = None,
        *,
        problems: Sequence[str] = (),
        hint: str | None = None,
    ) -> None:
        self.problems = tuple(problems)
        if self.problems:
            shown = list(self.problems[:20])
            if len(self.problems) > len(shown):
                shown.append(f"… and {len(self.problems) - len(shown)} more")
            message = "\n".join(
                [message or f"{len(self.problems)} problem(s) in the data:", *shown]
            )
        super().__init__(message, hint=hint)


class NothingSelected(UsageError):
    """0 tasks selected."""

    code = "nothing_selected"


class RunDirectoryError(UsageError):
    """The run directory cannot be used."""

    code = "run_directory"


class RunIsLive(UsageError):
    """Another process owns this run directory."""

    code = "run_is_live"


class Stopped(ProctorError):
    """Stopped before anything ran."""

    code = "stopped"

    def __init__(self, message: str | None = None, *, signal: int | None = None) -> None:
        self.signal = signal
        super().__init__(message)


class StorageError(ProctorError):
    """Evidence could not be written."""

    code = "storage"


class Fault(ProctorError):
    """Something failed while running.

    `cause` says where it was raised and travels with the exception, so that the layer that
    records it never has to guess from a class name. `permanent` faults are not retried unless
    an explicit pattern matches them. `retry_after_s` is the wait the other side asked for.
    """

    code = "fault"
    cause: ClassVar[Cause] = Cause.RUNTIME

    def __init__(
        self,
        message: str | None = None,
        *,
        code: str | None = None,
        permanent: bool = False,
        retry_after_s: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.fault_code = code or type(self).code
        self.permanent = permanent
        self.retry_after_s = retry_after_s


class EnvironmentFault(Fault):
    """The environment failed."""

    code = "environment"
    cause = Cause.ENVIRONMENT


class ModelFault(Fault):
    """The model endpoint failed."""

    code = "model"
    cause = Cause.MODEL_PROVIDER


class AgentFault(Fault):
    """The agent failed."""

    code = "agent"
    cause = Cause.AGENT


class BenchmarkFault(Fault):
    """The benchmark failed."""

    code = "benchmark"
    cause = Cause.BENCHMARK


class EvaluatorFault(Fault):
    """The evaluator failed."""

    code = "evaluator"
    cause = Cause.EVALUATOR


class RuntimeFault(Fault):
    """proctor itself failed."""

    code = "runtime"
    cause = Cause.RUNTIME
