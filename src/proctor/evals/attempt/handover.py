"""Artifacts of the agent's environment, handed over to the fresh one that grades.

What the grader gets is what was recorded: every file is copied into a folder that is ours alone,
its size and digest are those of the copied bytes, and that folder is sent, all at once.
"""

import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

from proctor.environments import copying
from proctor.environments.contract import DOWNLOAD_LIMIT_BYTES, EnvironmentSession
from proctor.environments.hosted import temp_dir
from proctor.environments.owner import Owner
from proctor.evals.contracts.result import Artifact
from proctor.evals.threads import TrackedThreads, in_own_thread
from proctor.kernel.errors import EnvironmentFault, EvaluatorFault

HANDED_OVER = "artifacts"
"""The folder below `paths.logs` of the session."""

_CHUNK_BYTES = 1 << 20


async def hand_over(
    session: EnvironmentSession,
    directory: str,
    artifacts: Sequence[Artifact],
    threads: TrackedThreads,
    *,
    limit_bytes: int = DOWNLOAD_LIMIT_BYTES,
) -> None:
    """Put the artifacts in `directory` into `LOGS_DIR/artifacts` of a fresh session.

    Raises EvaluatorFault `artifacts_too_large` (together above `limit_bytes`, default 1 GB, or
    above 200,000 files) and `artifact_changed` (not what was recorded when it was collected).
    """
    if not artifacts:
        return
    total = sum(artifact.size_bytes for artifact in artifacts)
    if total > limit_bytes or len(artifacts) > copying.MOST_ENTRIES:
        message = (
            f"the artifacts are {len(artifacts)} files of {total} bytes together, and at most "
            f"{copying.MOST_ENTRIES} of {limit_bytes} bytes are handed over"
        )
        raise EvaluatorFault(message, code="artifacts_too_large", permanent=True)
    staged = _Staged(directory)
    try:
        await threads.call("checking artifacts", staged.fill, artifacts)
        await session.upload(staged.tree, f"{session.paths.logs}/{HANDED_OVER}")
    finally:
        staged.stop()
        await in_own_thread("removing staged artifacts", staged.remove)


class _Staged:
    """A checked copy of artifacts. Its name says whose it is: a reaper finds what is left."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._root = os.path.join(temp_dir(), Owner.this_process().new_name())
        self.tree = Path(self._root, HANDED_OVER)
        self._stopped = threading.Event()
        self._working = threading.Lock()

    def stop(self) -> None:
        """Make `fill`, which may run in another thread, end soon."""
        self._stopped.set()

    def fill(self, artifacts: Sequence[Artifact]) -> None:
        """Copy and check every artifact. Raises EvaluatorFault `artifact_changed`."""
        with self._working:
            if self._stopped.is_set():
                return
            os.mkdir(self._root, 0o700)
            self.tree.mkdir(0o755)
            for artifact in artifacts:
                if self._stopped.is_set():
                    return
                try:
                    copied = self._copied(artifact)
                except (OSError, EnvironmentFault) as error:
                    raise _changed(artifact) from error
                if copied != (artifact.size_bytes, artifact.sha256):
                    raise _changed(artifact)

    def remove(self) -> None:
        """Remove the copy, once nobody writes it."""
        with self._working:
            shutil.rmtree(self._root, ignore_errors=True)

    def _copied(self, artifact: Artifact) -> tuple[int, str]:
        """Size and digest of the bytes that were copied: no more than one chunk too many."""
        *above, name = artifact.path.split("/")
        source = _opened(self._directory, above, name)
        try:
            facts = os.fstat(source)
            folder = self.tree.joinpath(*above)
            folder.mkdir(parents=True, exist_ok=True)
            digest, size = hashlib.sha256(), 0
            with open(folder / name, "xb") as target:
                while size <= artifact.size_bytes and (chunk := os.read(source, _CHUNK_BYTES)):
                    digest.update(chunk)
                    size += len(chunk)
                    target.write(chunk)
                target.flush()
                os.fchmod(target.fileno(), stat.S_IMODE(facts.st_mode) & 0o777 | stat.S_IRUSR)
                os.utime(target.fileno(), ns=(facts.st_atime_ns, facts.st_mtime_ns))
        finally:
            os.close(source)
        return size, digest.hexdigest()


def _opened(directory: str, above: Sequence[str], name: str) -> int:
    """A descriptor of a regular file below `directory`, reached without any link. Raises OSError
    and EnvironmentFault."""
    if not name or {"", ".", ".."}.intersection((*above, name)):
        raise FileNotFoundError(f"{name!r} is no name of an artifact")
    place = os.open(directory, copying.DIRECTORY & ~os.O_NOFOLLOW)
    try:
        for part in above:
            inner = os.open(part, copying.DIRECTORY, dir_fd=place)
            os.close(place)
            place = inner
        return copying.open_regular(place, name, name)
    finally:
        os.close(place)


def _changed(artifact: Artifact) -> EvaluatorFault:
    message = f"{artifact.path} is not what was collected: it was changed or removed"
    return EvaluatorFault(message, code="artifact_changed", permanent=True)
