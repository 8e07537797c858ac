"""The contract between the runtime and an environment provider.

A provider (`Environment`) opens sessions; a session (`EnvironmentSession`) is one place with
files and processes. Rules that every provider keeps, and the conformance suite checks:

- `problems(spec)` says why a specification cannot be honoured, before anything is opened.
- The runtime calls `open`, which a provider cannot override; it checks the specification and calls
  the provider's `open_session`. That either returns a live session or raises and leaves nothing
  behind.
- Every failure of the place itself is an `EnvironmentFault`. A command's own exit code,
  time-out or output never is: they come back in the `ExecResult`.
- Commands run in their own process group with stdin closed unless given; when the command ends
  or its time is up, the whole group is killed. Output is bounded: head and tail are kept.
- `close` is idempotent, copes with partial initialisation, and bounds every wait.
- Nothing of the driver's environment variables enters the session except what is passed in.

Paths are POSIX paths *inside* the session. Relative paths are relative to `paths.workspace`.

Files are placed by agents and therefore hostile: no operation follows a symbolic link out of the
session, blocks on a pipe or device, or writes through a link. The codes of an `EnvironmentFault`:

| code | meaning |
|---|---|
| `environment_gone` | the place vanished or was closed: the attempt starts again elsewhere |
| `no_answer` | a command's answer did not come in its time and a margin: a dead connection |
| `cannot_start` | the machine could not start a process (descriptors, memory, processes) |
| `unkillable` | a killed process does not end |
| `unsupported` | the provider cannot do this at all (permanent) |
| `refused_path` | a path outside the session, or through a link (permanent) |
| `not_a_file` | a folder, link, pipe or device where a regular file or tree was asked (permanent) |
| `too_large` | more than the caller's limit (permanent) |
| `missing_copy` | a file of the specification's `copies` does not exist (permanent) |
| `environment` | anything else |

`refused_path`, `not_a_file` and `too_large` are usually what the agent did to its own files:
whoever grades tells them apart by `fault_code`.
"""

import posixpath
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, final

from proctor.environments.answering import answered
from proctor.environments.gates import gate_of
from proctor.environments.network import NetworkPolicy
from proctor.environments.spec import EnvironmentSpec as EnvironmentSpec
from proctor.environments.spec import Resources as Resources
from proctor.kernel.errors import EnvironmentFault

if TYPE_CHECKING:
    from proctor.environments.reaping.leftovers import Source

OUTPUT_LIMIT_BYTES = 1_000_000
"""Default bound on captured output per stream; the head and the tail are kept."""

DOWNLOAD_LIMIT_BYTES = 1_000_000_000
"""Default bound on the files of one download together."""

Command: TypeAlias = Sequence[str] | str
"""An argv list, or a script for the environment's shell."""


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """The well-known places of a session, as absolute paths inside it."""

    workspace: str
    tests: str
    logs: str
    solution: str


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command did. `exit_code` is None when it was killed by us.

    A command that a signal ended has the negative number of the signal, or 128 + the number where
    a shell or sandbox stands between.

    `stdout` and `stderr` are decoded as UTF-8 with replacement; when more than the limit was
    written, head and tail are kept around a note and `truncated` is True. `dropped_bytes` counts
    what was cut from both. `lingering` says that processes of the group outlived the command and
    were killed, `out_of_memory` that memory ran out, `out_of_storage` that it was ended because it
    filled more disk than it may; they are set by providers that can tell.
    `stdout_raw` and `stderr_raw` are the kept bytes where decoding had to replace some, else None.
    """

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool = False
    truncated: bool = False
    dropped_bytes: int = 0
    lingering: bool = False
    out_of_memory: bool = False
    duration_s: float = 0.0
    stdout_raw: bytes | None = None
    stderr_raw: bytes | None = None
    out_of_storage: bool = False

    @property
    def ok(self) -> bool:
        """Exit code 0 within the time."""
        return self.exit_code == 0 and not self.timed_out


class EnvironmentSession(ABC):
    """One open place. Use as an async context manager, or call `close`."""

    paths: SessionPaths
    isolated: bool = False
    """Whether what runs inside can neither read nor change the host."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "exec" in cls.__dict__:
            cls.exec = answered(cls.exec)  # type: ignore[method-assign]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        stdin: bytes | None = None,
        timeout_s: float | None = None,
        output_limit_bytes: int = OUTPUT_LIMIT_BYTES,
        resources: Resources | None = None,
    ) -> ExecResult:
        """Run a command to its end.

        A script runs in bash where the place has it, else in sh. `timeout_s`: None, NaN, anything
        not above 0 and anything above the provider's ceiling (24 hours unless configured) mean the
        ceiling, so that a limit chosen by a model cannot switch the limit off. A program that is
        missing or cannot run is exit code 127 or 126, as in a shell. `resources` bounds this
        command's processes.

        The provider keeps the time. Should it not answer at all, the call ends some seconds later
        with an EnvironmentFault `no_answer`; that holds around every subclass's `exec`.
        """

    @abstractmethod
    async def upload(self, source: Path, target: str) -> None:
        """Copy a host file or tree to `target`, making its folders; a tree merges into a folder.

        Symbolic links inside a tree are kept; links that leave it, pipes and devices are refused,
        and so is a `source` that is itself a link. A link found at `target` is replaced, never
        written through.
        """

    @abstractmethod
    async def download(
        self, source: str, target: Path, *, limit_bytes: int = DOWNLOAD_LIMIT_BYTES
    ) -> None:
        """Copy a file or tree from inside to `target` on the host. Never follows links.

        The same kinds of files are refused as by `upload`. Raises FileNotFoundError, and an
        EnvironmentFault `too_large` when the files together exceed `limit_bytes`, or a tree
        holds more than 200,000 entries.
        """

    @abstractmethod
    async def read(self, path: str, *, limit_bytes: int = 10_000_000) -> bytes:
        """A regular file's bytes.

        Raises FileNotFoundError, and an EnvironmentFault `not_a_file` or `too_large`.
        """

    @abstractmethod
    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making its folders. A link or other file at `path` is replaced."""

    @abstractmethod
    async def remove(self, path: str) -> None:
        """Remove a file or tree if it is there. A link is removed, never followed."""

    @abstractmethod
    async def alive(self) -> bool:
        """Whether the place still exists."""

    @abstractmethod
    async def close(self) -> None:
        """Remove the place with everything in it. Idempotent."""

    async def ended_inside(self) -> bool:
        """Whether the place has ended, and surely by what ran inside and nothing else: not by a
        request, nor by a failure of its provider. Raises nothing. Default: nobody can tell."""
        return False

    async def set_network(self, policy: NetworkPolicy) -> None:
        """Switch the live policy. A provider that cannot refuses such plans in `problems`."""
        raise EnvironmentFault(
            "this environment cannot switch its network policy", code="unsupported", permanent=True
        )

    async def driver_address(self, port: int) -> str:
        """Where programs inside reach what the driver serves on its own 127.0.0.1:`port`, as
        `HOST:PORT`; the same for the same port. Only with `EnvironmentSpec.driver_access`.

        It holds under every policy until `end_driver_access` (by the runtime, once the agent's run
        is over) or `close`, and leads to the socket that listens there now, to nothing else. In
        the host's own network nothing ends. Whoever is inside may connect: ask for a token.
        """
        raise EnvironmentFault(
            "from this environment the driver is not reached", code="unsupported", permanent=True
        )

    async def end_driver_access(self) -> None:
        """Cut off what `driver_address` opened. Idempotent. Default: nothing was opened."""

    async def kill_processes(self) -> None:
        """Kill whatever agents left running, before grading. Default: nothing outlives exec."""

    def script_env(self) -> dict[str, str]:
        """The variables that portable scripts honour."""
        return {
            "WORKSPACE": self.paths.workspace,
            "TESTS_DIR": self.paths.tests,
            "LOGS_DIR": self.paths.logs,
        }

    def resolve(self, path: str) -> str:
        """`path` as an absolute, normalised path inside the session."""
        return posixpath.normpath(posixpath.join(self.paths.workspace, path))


class Environment(ABC):
    """A provider of sessions. `Options` may be a pydantic model of its `-p environment.*`.

    A provider implements `problems` and `open_session`. `open` is the runtime's entry and is the
    same for all, so that what is enforced around it (the check of the specification, limits per
    process) cannot be skipped by a plug-in.
    """

    id: ClassVar[str]
    version: ClassVar[str] = "1"
    Options: ClassVar[type[Any] | None] = None

    def __init__(self, options: Any = None) -> None:
        self.options = options

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "open" in cls.__dict__:
            raise TypeError(f"{cls.__name__} must implement open_session; open cannot be replaced")

    def requirements(self) -> list[str]:
        """What is missing on this machine for the provider to work at all; empty when ready."""
        return []

    def cautions(self) -> list[str]:
        """What a user must know before trusting this provider; said once per run."""
        return []

    def adapt(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        """`spec` as this provider's options change it; what the plan records. Idempotent."""
        return spec

    @abstractmethod
    def problems(self, spec: EnvironmentSpec) -> list[str]:
        """Why `spec` cannot be honoured; empty when it can."""

    def notices(self, spec: EnvironmentSpec) -> list[tuple[str, str]]:
        """(code, message) warnings about what of `spec` is skipped; recorded with the attempt."""
        return []

    @final
    async def open(self, spec: EnvironmentSpec, labels: Mapping[str, str]) -> EnvironmentSession:
        """Open a session. `labels` (run, attempt, owner) mark it before anything is created.

        Raises EnvironmentFault `unsupported` when `problems` has any.
        """
        spec = self.adapt(spec)
        problems = self.problems(spec)
        if problems:
            raise EnvironmentFault(
                f"environment {self.id!r} cannot run this: " + "; ".join(problems),
                code="unsupported",
                permanent=True,
            )
        await gate_of(self.id).open_turn()
        return await self.open_session(spec, labels)

    @abstractmethod
    async def open_session(
        self, spec: EnvironmentSpec, labels: Mapping[str, str]
    ) -> EnvironmentSession:
        """Open a session for a specification without problems. Called by `open` only."""

    def owned(self) -> "Source | None":
        """What knows the things that sessions of this provider leave when their driver is killed,
        for `proctor env list|reap`. Default: nothing besides folders, processes and control
        groups of this host, which are known anyway."""
        return None

    def facts(self) -> dict[str, Any]:
        """What is worth recording about the provider on this machine."""
        return {}
