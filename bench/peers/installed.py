"""The systems that we compare with, each in a virtual environment of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from bench.measured import cache_dir, look_at

INSTALLERS = frozenset(["pip", "setuptools", "wheel"])
INSTALL_LIMIT_S = 1800


class NotInstalled(Exception):
    """A peer that cannot be measured here, and why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A system at the version whose figures were published in this project's targets."""

    name: str
    version: str
    module: str
    """The driver: `python -m MODULE TASKS CONCURRENCY REPORT`."""
    compared_with: str = "reuse"
    """Which mode of bench/noop.py does the same."""
    package: str = ""
    """What its users import."""
    python: tuple[int, int] = (3, 11)
    env: dict[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    """Requirements beside its own, pinned."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"


PEERS = (
    Peer(
        "inspect-ai", "0.3.285", "bench.peers.inspect_noop", compared_with="model",
        package="inspect_ai",
    ),
    Peer(
        "harbor", "0.25.0", "bench.peers.harbor_noop", python=(3, 12), package="harbor",
        env={"HARBOR_TELEMETRY": "0"},
    ),
    Peer(
        "agentcompass", "1.0.1", "bench.peers.agentcompass_noop", compared_with="none",
        python=(3, 12), package="agentcompass", env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
)  # fmt: skip


def interpreter(peer: Peer) -> Path:
    """The python of the peer's environment, made on first use. Raises NotInstalled."""
    folder = cache_dir() / "peers" / f"{peer.name}-{peer.version}"
    python = folder / "bin" / "python"
    stamp = folder / ".installed"
    if stamp.exists():
        return python
    base = _base_python(peer.python)
    if base is None:
        raise NotInstalled(
            f"{peer.title} needs Python >= {peer.python[0]}.{peer.python[1]}, and neither the "
            "PATH nor pyenv has one"
        )
    _step([base, "-m", "venv", "--clear", str(folder)], peer)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input"]
    _step([*pip, "install", f"{peer.name}=={peer.version}", *peer.also], peer)
    stamp.touch()
    return python


def _step(command: list[str], peer: Peer) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PIP_CONSTRAINT")}
    done = _said(command, env=environment, timeout=INSTALL_LIMIT_S)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise NotInstalled(f"{peer.title} cannot be installed: " + " / ".join(said))


def _said(
    command: list[str], *, env: dict[str, str] | None = None, timeout: float = 60
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env=env, timeout=timeout
    )


@cache
def _base_python(at_least: tuple[int, int]) -> str | None:
    """The oldest interpreter that is new enough: what a peer supports ends somewhere."""
    found: dict[tuple[int, int], str] = {}
    for path in _candidates():
        version = _version(path)
        if version is not None and version >= at_least:
            found.setdefault(version, path)
    return found[min(found)] if found else None


def _candidates() -> Iterator[str]:
    yield sys.executable
    for minor in range(11, 20):
        path = shutil.which(f"python3.{minor}")
        if path is not None:
            yield path
    pyenv = shutil.which("pyenv")
    if pyenv is not None:
        root = _said([pyenv, "root"])
        versions = Path(root.stdout.strip(), "versions")
        yield from (str(p) for p in sorted(versions.glob("3.*/bin/python3")))


def _version(path: str) -> tuple[int, int] | None:
    """The version of an interpreter that runs; a version manager's shim may not."""
    probe = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    done = _said([path, "-c", probe])
    if done.returncode != 0:
        return None
    major, minor = done.stdout.split()
    return int(major), int(minor)


@dataclass(frozen=True, slots=True)
class Size:
    """What an environment holds besides the installers."""

    packages: int
    megabytes: float

    def to_json(self) -> dict[str, float]:
        return {"packages": self.packages, "megabytes": self.megabytes}


def size_of(python: Path) -> Size:
    """Packages and bytes (as installed, bytecode included) of the environment of `python`."""
    (site,) = python.parent.parent.glob("lib/python*/site-packages")
    listed = {p.name.split("-")[0].lower() for p in site.glob("*.dist-info")}
    own = [p for p in site.iterdir() if not _is_installer(p.name)]
    total = sum(look_at(p).size_bytes if p.is_dir() else p.stat().st_size for p in own)
    return Size(len(listed - INSTALLERS), total / 1e6)


def _is_installer(name: str) -> bool:
    return name.split("-")[0].lower() in INSTALLERS | {"pkg_resources", "_distutils_hack"}
