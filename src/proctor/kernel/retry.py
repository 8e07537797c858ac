"""The one retry policy: what is tried again, how often, and how long to wait before."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

DEFAULT_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
MAX_RETRY_AFTER_S = 300.0
"""A wait that the other side asks for is honoured up to here. One that asks for more is not
waited for at all: the attempt ends, saying so, instead of sleeping for hours."""


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """Whether to try again, with the reason for the record."""

    retry: bool
    reason: str
    matched: str | None = None
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Runtime repetitions inside one attempt; the budget starts afresh with each attempt.

    `patterns`: None matches any non-empty error, a list matches when one of its regular
    expressions is found in the error text, an empty list matches nothing. Under None, errors
    known to be permanent are not retried; an explicit pattern that matches them retries them.
    """

    max_retries: int = 0
    patterns: tuple[re.Pattern[str], ...] | None = None
    backoff_s: float = DEFAULT_BACKOFF_S
    max_backoff_s: float = MAX_BACKOFF_S

    @classmethod
    def build(
        cls,
        max_retries: int,
        patterns: Sequence[str] | None,
        backoff_s: float = DEFAULT_BACKOFF_S,
    ) -> "RetryPolicy":
        """Compile `patterns`; raises re.error for a bad one."""
        compiled = None if patterns is None else tuple(re.compile(p) for p in patterns)
        return cls(max_retries, compiled, backoff_s)

    def decide(
        self,
        error: str,
        retries_done: int,
        *,
        permanent: bool = False,
        retry_after_s: float | None = None,
        rng: random.Random | None = None,
    ) -> RetryDecision:
        """Decide about `error` after `retries_done` repetitions of this attempt."""
        matched = self._match(error)
        if matched is None:
            return RetryDecision(False, "no pattern matches")
        if permanent and self.patterns is None:
            return RetryDecision(False, "permanent: not retried without an explicit pattern")
        if retries_done >= self.max_retries:
            return RetryDecision(False, f"retries used up ({self.max_retries})", matched)
        delay = self.backoff(retries_done, rng or random.Random())
        if retry_after_s is not None and retry_after_s > delay:
            delay = retry_after_s
        if delay > max(MAX_RETRY_AFTER_S, self.max_backoff_s):
            asked = f"asked to wait {delay:g} s, more than {MAX_RETRY_AFTER_S:g} s"
            return RetryDecision(False, asked, matched)
        return RetryDecision(True, "retry", matched, delay)

    def backoff(self, retries_done: int, rng: random.Random) -> float:
        """Seconds before repetition `retries_done + 1`: doubling, jittered to 50-100 %, capped."""
        ceiling = min(self.max_backoff_s, self.backoff_s * 2.0 ** min(retries_done, 30))
        return ceiling * (0.5 + rng.random() / 2)

    def _match(self, error: str) -> str | None:
        if not error:
            return None
        if self.patterns is None:
            return "*"
        return next((p.pattern for p in self.patterns if p.search(error)), None)
