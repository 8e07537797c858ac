"""Images: by name (pulled where allowed), or built from a task's Dockerfile and kept by digest."""

import asyncio
import base64
import logging
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from weakref import WeakKeyDictionary

from proctor.environments.docker.context import pack_context
from proctor.environments.docker.engine import Engine, EngineError
from proctor.kernel import jsontext
from proctor.kernel.errors import EnvironmentFault

BUILT = "localhost/proctor-build"
"""The name of built images; the tag is the digest of what they were built from."""
BUILD_LABEL = "proctor.build"

_PROGRESS_S = 5.0
_CHUNK = 262_144
_DENIED = ("unauthorized", "denied", "authentication required", "forbidden", "no basic auth")
_MISSING = ("not found", "manifest unknown", "no such image", "does not exist", "name unknown")
_log = logging.getLogger(__name__)
_locks: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]]" = (
    WeakKeyDictionary()
)


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """`pull`: missing, never or always. Times in seconds."""

    pull: str = "missing"
    pull_timeout_s: float = 1_800.0
    build_timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is there. `config` is its own configuration: USER, WORKDIR, ENTRYPOINT."""

    id: str
    config: Any

    @property
    def user(self) -> str:
        return str(self.config.get("User") or "")

    @property
    def workdir(self) -> str:
        return str(self.config.get("WorkingDir") or "")


class Images:
    """The images of one engine. Two sessions that need the same one wait for one pull or build."""

    def __init__(self, engine: Engine, settings: ImageSettings) -> None:
        self._engine = engine
        self._settings = settings

    async def named(self, name: str) -> Image:
        """The image `name`, pulled when it is missing and that is allowed.

        Raises EnvironmentFault `image_missing`, `image_auth` (both permanent) or `image_pull`.
        """
        async with self._turn(name):
            found = await self._find(name)
            pull = self._settings.pull
            if pull == "always" or (found is None and pull != "never"):
                await self._pull(name)
                found = await self._find(name)
            if found is None:
                raise EnvironmentFault(
                    f"image {name!r} is not there",
                    code="image_missing",
                    permanent=True,
                    hint=f"docker pull {name}, or -p environment.pull=missing",
                )
            return found

    async def built(self, context: str) -> Image:
        """The image of the Dockerfile in the host's folder `context`; built unless it was before.

        Raises EnvironmentFault `image_build`.
        """
        try:
            packed = await asyncio.to_thread(pack_context, Path(context))
        except (OSError, ValueError) as error:
            message = f"the build context {context} cannot be read: {error}"
            raise EnvironmentFault(message, code="image_build", permanent=True) from error
        with packed.stream:
            name = f"{BUILT}:{packed.digest[:32]}"
            async with self._turn(name):
                found = await self._find(name)
                if found is None:
                    await self._build(packed.stream, packed.size, name, packed.digest)
                    found = await self._find(name)
        if found is None:
            raise EnvironmentFault(
                f"the engine built {name}, but has not got it", code="image_build"
            )
        return found

    async def _find(self, name: str) -> Image | None:
        try:
            facts = await self._engine.call("GET", f"/images/{name}/json")
        except EngineError as error:
            if error.status == 404:
                return None
            raise EnvironmentFault(f"image {name!r}: {error.message}", code="image_pull") from error
        return Image(facts["Id"], facts.get("Config") or {})

    async def _pull(self, name: str) -> None:
        repository, tag = _split(name)
        query = {"fromImage": repository, **({"tag": tag} if tag else {})}
        headers = {"X-Registry-Auth": _registry_auth(name)}
        try:
            async with (
                asyncio.timeout(self._settings.pull_timeout_s),
                self._engine.answer("POST", "/images/create", query, b"", headers) as answer,
            ):
                problem = await _progress(answer.chunks(), f"pulling {name}")
        except EngineError as error:
            problem = error.message
        except TimeoutError:
            problem = f"it took longer than {self._settings.pull_timeout_s:g} s"
        if problem:
            raise _pull_fault(name, problem)

    async def _build(self, stream: IO[bytes], size: int, name: str, digest: str) -> None:
        query = {
            "t": name, "rm": "1", "forcerm": "1", "dockerfile": "Dockerfile",
            "labels": jsontext.dumps({BUILD_LABEL: digest}),
        }  # fmt: skip
        headers = {"Content-Type": "application/x-tar", "Content-Length": str(size)}
        limit_s = self._settings.build_timeout_s
        try:
            async with (
                asyncio.timeout(limit_s),
                self._engine.answer(
                    "POST", "/build", query, file_chunks(stream), headers
                ) as answer,
            ):
                problem = await _progress(answer.chunks(), f"building {name}")
        except EngineError as error:
            problem = error.message
        except TimeoutError:
            problem = f"it took longer than {limit_s:g} s (-p environment.build_timeout_s=)"
        if problem:
            raise EnvironmentFault(f"the image cannot be built: {problem}", code="image_build")

    def _turn(self, name: str) -> asyncio.Lock:
        of_loop = _locks.setdefault(asyncio.get_running_loop(), {})
        return of_loop.setdefault(f"{self._engine.endpoint} {name}", asyncio.Lock())


async def file_chunks(stream: IO[bytes]) -> AsyncIterator[bytes]:
    """A file's bytes, for the body of a request."""
    while chunk := stream.read(_CHUNK):
        yield chunk


async def _progress(chunks: AsyncIterator[bytes], what: str) -> str:
    """Follow a pull or build to its end and say now and then how far it is.

    Returns what went wrong, with the last lines of output; empty when nothing did.
    """
    pending, tail, problem = b"", "", ""
    told = time.monotonic()
    async for chunk in chunks:
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            record = _record(line)
            if "error" in record:
                problem = str(record["error"])
            tail = (tail + str(record.get("stream", "")))[-1_500:]
            now = time.monotonic()
            if now - told >= _PROGRESS_S and (text := _progress_text(record)):
                told = now
                _log.info("%s: %s", what, text)
    record = _record(pending)
    problem = str(record.get("error", problem))
    return f"{problem}\n{tail}".strip() if problem else ""


def _record(line: bytes) -> dict[str, Any]:
    try:
        found = jsontext.loads(line) if line.strip() else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _progress_text(record: dict[str, Any]) -> str:
    parts = (record.get("id"), record.get("status"), record.get("progress"), record.get("stream"))
    return " ".join(str(part).strip() for part in parts if part).strip()


def _pull_fault(name: str, problem: str) -> EnvironmentFault:
    low = problem.lower()
    if any(word in low for word in _DENIED):
        return EnvironmentFault(
            f"image {name!r} may not be pulled: {problem}",
            code="image_auth",
            permanent=True,
            hint="docker login; the name of a private image must hold its registry",
        )
    if any(word in low for word in _MISSING):
        message = f"image {name!r} does not exist: {problem}"
        return EnvironmentFault(message, code="image_missing", permanent=True)
    return EnvironmentFault(f"image {name!r} cannot be pulled: {problem}", code="image_pull")


def _split(name: str) -> tuple[str, str]:
    """(repository, tag or digest); a name without a tag means `latest`, not all tags."""
    repository, at, digest = name.partition("@")
    if at:
        return repository, digest
    head, colon, tag = name.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (name, "latest")


def _registry_auth(name: str) -> str:
    """What `docker login` stored for the image's registry, as the engine wants to have it."""
    first = name.split("/")[0]
    own = "/" in name and ("." in first or ":" in first or first == "localhost")
    registry = first if own else "https://index.docker.io/v1/"
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    auth: dict[str, str] = {}
    try:
        stored = jsontext.loads(Path(folder, "config.json").read_bytes())
        pair = base64.b64decode(stored["auths"][registry]["auth"]).decode("utf-8")
        user, _, password = pair.partition(":")
        auth = {"username": user, "password": password, "serveraddress": registry}
    except (OSError, ValueError, KeyError, TypeError):  # nobody logged in, or by another program
        auth = {}
    return base64.urlsafe_b64encode(jsontext.dumps(auth).encode()).decode()
