"""The verdict of a verifier: reward.json, else reward.txt, in its output folder.

What is not a verdict is told apart and never counts as 0.
"""

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proctor.environments.contract import EnvironmentSession
from proctor.kernel import jsontext
from proctor.kernel.errors import EnvironmentFault

REWARD_LIMIT_BYTES = 65_536
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_UNREADABLE = {
    "too_large": "reward_too_large",
    "not_a_file": "reward_not_a_file",
    "refused_path": "reward_not_a_file",
}


@dataclass(frozen=True, slots=True)
class Reward:
    """The rewards by key (reward.txt has the one key `reward`) and the file they are from."""

    rewards: Mapping[str, float]
    file: str

    @property
    def passed(self) -> bool:
        """Whether every reward is at least 1."""
        return all(value >= 1 for value in self.rewards.values())

    @property
    def scalar(self) -> float:
        """The key `reward` where there is one, else the mean of all keys."""
        if "reward" in self.rewards:
            return self.rewards["reward"]
        count = len(self.rewards)
        return math.fsum(value / count for value in self.rewards.values())


@dataclass(frozen=True, slots=True)
class NoReward:
    """Why there is no verdict: a stable code and a sentence."""

    code: str
    reason: str


async def read_reward(session: EnvironmentSession, folder: str) -> Reward | NoReward:
    """The verdict in the verifier's output `folder`. A reward.json wins, even a broken one.

    Raises EnvironmentFault when the environment itself fails.
    """
    for name, parse in (("reward.json", parse_json), ("reward.txt", parse_text)):
        try:
            data = await session.read(posixpath.join(folder, name), limit_bytes=REWARD_LIMIT_BYTES)
        except FileNotFoundError:
            continue
        except EnvironmentFault as fault:
            if fault.fault_code not in _UNREADABLE:
                raise
            return NoReward(_UNREADABLE[fault.fault_code], f"{name}: {fault.message}")
        return parse(data, name)
    return NoReward("reward_missing", "the tests wrote neither reward.json nor reward.txt")


def parse_text(data: bytes, name: str = "reward.txt") -> Reward | NoReward:
    """One finite number, with blanks around it allowed."""
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        return NoReward("reward_unparsable", f"{name} is not UTF-8 (byte {error.start})")
    if not text:
        return NoReward("reward_empty", f"{name} is empty")
    if _NOT_FINITE.fullmatch(text):
        return NoReward("reward_not_finite", f"{name} holds {text}, not a finite number")
    if not _NUMBER.fullmatch(text):
        return NoReward("reward_not_numeric", f"{name} holds {_short(text)}, not one number")
    value = float(text)
    if not math.isfinite(value):
        return NoReward("reward_not_finite", f"{name} holds {_short(text)}, beyond any float")
    return Reward({"reward": value}, name)


def parse_json(data: bytes, name: str = "reward.json") -> Reward | NoReward:
    """A flat object of finite numbers with at least one key."""
    if not data.strip():
        return NoReward("reward_empty", f"{name} is empty")
    try:
        value = jsontext.loads(data.removeprefix(b"\xef\xbb\xbf"), unique_keys=True)
    except jsontext.JsonError as error:
        code = "reward_not_finite" if _says_not_finite(error) else "reward_unparsable"
        return NoReward(code, f"{name}: {error}")
    if not isinstance(value, dict):
        return NoReward("reward_unparsable", f"{name} holds {_short(value)}, not an object")
    if not value:
        return NoReward("reward_empty", f"{name} has no key")
    rewards: dict[str, float] = {}
    for key, item in value.items():
        if isinstance(item, bool) or not isinstance(item, int | float):
            reason = f"{name}: {_short(key)} is {_short(item)}, not a number"
            return NoReward("reward_not_numeric", reason)
        try:
            rewards[key] = float(item)
        except OverflowError:
            reason = f"{name}: {_short(key)} is beyond any float"
            return NoReward("reward_not_finite", reason)
    return Reward(rewards, name)


def _says_not_finite(error: jsontext.JsonError) -> bool:
    text = str(error)
    return text.endswith("is not JSON") or text.startswith("number out of range")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
