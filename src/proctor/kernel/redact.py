"""Secrets are removed at write time, from every file, log and trace.

Two rules: a value under a key that looks secret is replaced, and every *known* secret value
(read from the environment or a `.env` file) is replaced wherever it stands in a text.
Facts (observations, ground truth, the final answer) are exempt from the key rule, never from
the value rule.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

REDACTED = "[redacted]"

SECRET_KEY_PARTS = (
    "api_key", "apikey", "secret", "password", "passwd", "token", "authorization",
    "credential", "private_key", "access_key", "cookie", "bearer",
)  # fmt: skip
"""A key that contains one of these (case and `-`/`_` folded) looks secret …"""

NOT_SECRET_KEYS = frozenset(
    ["api_key_env", "max_tokens", "max_completion_tokens", "token_count", "token_limit",
     "tokenizer", "token_budget", "token_ids", "prompt_token_ids", "completion_token_ids",
     "stop_tokens"]
)  # fmt: skip
"""… unless it is one of these, ends in `_env` (a variable's name), or ends in `tokens` and
holds a number (a count)."""

MIN_SECRET_LENGTH = 6
"""Shorter values are not searched for in text: replacing them would destroy facts."""


@lru_cache(maxsize=2048)  # the same few keys stand in every record
def looks_secret(key: str) -> bool:
    """Whether the value under `key` is redacted by its name."""
    folded = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).replace("-", "_").lower()
    if folded in NOT_SECRET_KEYS or folded.endswith("_env"):
        return False
    return any(part in folded or part in folded.replace("_", "") for part in SECRET_KEY_PARTS)


class Redactor:
    """Replaces secrets in JSON-like values and texts."""

    def __init__(self, secret_values: Iterable[str] = ()) -> None:
        values = sorted({v for v in secret_values if len(v) >= MIN_SECRET_LENGTH}, key=len)
        self._values = re.compile("|".join(map(re.escape, reversed(values)))) if values else None

    @property
    def knows_secrets(self) -> bool:
        """Whether there is any known secret value to look for."""
        return self._values is not None

    def text(self, text: str) -> str:
        """`text` without any known secret value."""
        return self._values.sub(REDACTED, text) if self._values is not None else text

    def config(self, value: Any) -> Any:
        """A copy of `value` with secrets replaced by key name and by known value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                key: REDACTED if _hides(key, item) else self.config(item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.config(item) for item in value]
        return value

    def facts(self, value: Any) -> Any:
        """A copy of `value` with known secret values replaced; keys do not matter."""
        if self._values is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.facts(key): self.facts(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.facts(item) for item in value]
        return value


def _hides(key: object, item: Any) -> bool:
    if not isinstance(key, str) or item is None or item in ("", REDACTED):
        return False
    if isinstance(item, int | float) and key.lower().endswith("tokens"):
        return False
    return looks_secret(key)


def secret_settings(value: Any) -> list[str]:
    """The texts that stand under a key that looks secret, anywhere in a configuration."""
    if isinstance(value, Mapping):
        found: list[str] = []
        for key, item in value.items():
            found += _texts(item) if _hides(key, item) else secret_settings(item)
        return found
    if isinstance(value, list | tuple):
        return [text for item in value for text in secret_settings(item)]
    return []


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, Mapping) else value
    return [t for v in items for t in _texts(v)] if isinstance(value, Iterable) else []


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """The values of all variables of `environ` whose names look secret."""
    return [value for name, value in environ.items() if value and looks_secret(name)]
