"""Containers that the engine has frozen: thawed surely, and not taken for frozen too long.

docker hears of every freeze a second time, from its own runtime and late: for a moment after a
container was thawed it may say "paused" again. So whoever is told so asks once more.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from proctor.environments.docker.engine import Engine, EngineError
from proctor.environments.patience import Patience
from proctor.kernel.errors import EnvironmentFault

Answer = TypeVar("Answer")

_FREEZE_S = 15.0
_CALL_S = 15.0
_THAW_S = 30.0
_PATIENCE_S = 15.0


def says_frozen(message: str) -> bool:
    """Whether an engine's message refuses something because the container is frozen."""
    text = message.lower()
    return " is paused" in text or "in a paused" in text


async def freeze(engine: Engine, name: str) -> None:
    """Stop every process where it stands. Raises EngineError and EnvironmentFault, and then it
    may be frozen or not, or will be."""
    await engine.done("POST", f"/containers/{name}/pause", timeout_s=_FREEZE_S)


async def thawed(engine: Engine, name: str) -> bool:
    """Let everything go on, also after a freeze that gave no answer; whether the engine says that
    nothing is frozen any more."""
    patience = Patience(_THAW_S)
    while True:
        try:
            await engine.done("POST", f"/containers/{name}/unpause", timeout_s=_CALL_S)
        except (EngineError, EnvironmentFault):  # it was not frozen, or is no more: it is looked at
            pass
        try:
            facts = await engine.call("GET", f"/containers/{name}/json", timeout_s=_CALL_S)
            if not facts["State"].get("Paused"):
                return True
        except EngineError as error:
            return error.status == 404
        except EnvironmentFault:  # no answer: asked again
            pass
        if patience.over():
            return False
        await patience.pause()


async def patiently(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """What `ask` answers, asked again while the engine takes the container for frozen. Raises
    what `ask` raises."""
    patience: Patience | None = None
    while True:
        try:
            return await ask()
        except EngineError as error:
            patience = patience or Patience(_PATIENCE_S, longest_s=0.2)
            if not says_frozen(error.message) or patience.over():
                raise
        await patience.pause()
