"""The container engines that scripts/engines.sh started for the tests, and an image on each."""

import asyncio
import fcntl
import os
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tests import rootfs

from proctor.environments.docker.endpoint import endpoint
from proctor.environments.docker.engine import Engine, EngineError, collected
from proctor.kernel import jsontext

ADDRESSES = {"docker": "PROCTOR_TEST_DOCKER", "podman": "PROCTOR_TEST_PODMAN"}
IMAGE = f"localhost/proctor-test:{zlib.crc32(Path(rootfs.__file__).read_bytes()):08x}"
"""A root file system of this machine's own programs: sh, bash, python3 and the usual ones."""


def address(name: str) -> str:
    """Where the engine `name` listens; empty when it was not started."""
    return os.environ.get(ADDRESSES[name], "")


def missing(name: str) -> tuple[bool, str]:
    """What `need` takes: whether the engine is there, else why not."""
    reason = (
        f"no {name} engine was started for the tests: {ADDRESSES[name]} is not set "
        "(scripts/test does it; by hand: scripts/engines.sh start /tmp/engines)"
    )
    return bool(address(name)), reason


@cache
def ensure_image(name: str) -> str:
    """The image on an engine, made once; processes that run tests side by side take turns. In a
    thread: it may be called while an event loop runs."""
    lock = Path(tempfile.gettempdir(), f"proctor-test-image-{os.getuid()}-{name}.lock")
    with open(lock, "w", encoding="ascii") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(_ensure(address(name)))).result()
    return IMAGE


async def _ensure(where: str) -> None:
    engine = Engine(endpoint(where))
    try:
        try:
            await engine.call("GET", f"/images/{IMAGE}/json")
            return
        except EngineError as error:
            if error.status != 404:
                raise
        kind = {"Content-Type": "application/x-tar"}
        query = {"fromSrc": "-"}
        async with engine.answer("POST", "/images/create", query, rootfs.build(), kind) as answer:
            last = (await collected(answer)).strip().split(b"\n")[-1]
        made = jsontext.loads(last)["status"].removeprefix("sha256:")
        repository, _, tag = IMAGE.rpartition(":")
        await engine.done("POST", f"/images/{made}/tag", {"repo": repository, "tag": tag})
    finally:
        engine.close()
