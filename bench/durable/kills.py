"""The same kill: a process dies by SIGKILL after the effect and before its result is durable, is
started again, and the other side, a process of its own, counts the effects."""

import asyncio
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.durable.systems import System, place_of
from bench.measured import ROOT, CaseFailed, run, scratch, usual_environment
from proctor.testing.otherside import ask, other_side

LIMIT_S = 60.0
"""How long a process may take to die."""


@dataclass(frozen=True, slots=True)
class Killed:
    """What the other side counted for one action, and how the run ended."""

    effects: int
    ended: str

    @property
    def told(self) -> bool:
        """Whether it stopped and told a person, instead of going on."""
        return "person" in self.ended


def kill(system: System, url: str | None, variant: str) -> Killed:
    """Kill and recover once. Raises CaseFailed when it does not die as it should, or does not
    recover."""
    place, env = place_of(system, url)
    with scratch() as folder, tempfile.TemporaryDirectory() as short:
        socket = str(Path(short, "s"))  # its path must be short, the folder's may be long
        argv = [system.python(), "-m", system.module, "effect", place, variant, socket]
        with other_side(socket):
            _die([*argv, str(folder / "report.json")], folder, env)
            own = run([*argv, "{report}"], folder, env).own
            counted: dict[str, Any] = asyncio.run(ask(socket, {"log": True}))
        return Killed(len(counted["keys"]), own["ended"])


def _die(argv: list[str], folder: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        argv, cwd=folder, env={**usual_environment(), "PYTHONPATH": str(ROOT), **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    if done.returncode != -signal.SIGKILL:
        raise CaseFailed(f"it ended with {done.returncode} instead of dying: {done.stderr[-500:]}")
