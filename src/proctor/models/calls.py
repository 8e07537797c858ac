"""The one place where a model request is sent again.

- Permanent failures are sent once. Transient ones are sent again up to `max_retries` times, so a
  call makes at most `1 + max_retries` requests, connection failures included.
- Before each repetition: exponential back-off, 1 s doubling to 60 s, jittered to 50-100 %; or
  what Retry-After asks for, when that is longer.
- After a 429, and after any failure with a usable Retry-After, the wait is shared: nobody in
  this process sends to that model until it is over. Other waits are the call's own.
- A Retry-After above `max_retry_after_s` ends the call at once: a quota of hours is not waited
  for.
- A fault that comes out after repetitions is `permanent`, so that the runtime's own retries do
  not multiply with these. With `max_retries=0` a transient failure stays transient and the
  runtime's retries apply.
- While waiting, no permit of the model is held; cancelling ends the wait at once.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from proctor.kernel.clock import Clock
from proctor.kernel.retry import RetryPolicy
from proctor.models.contract import ModelReply
from proctor.models.errors import Category, EndpointFault, Failure, RequestFailed, fault
from proctor.models.limits import Limiter

Send = Callable[[], Awaitable[ModelReply]]


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How often, and how patiently. Durations in seconds."""

    max_retries: int = 5
    max_retry_after_s: float = 60.0


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What follows from a failure: wait and send again, or an end with its reason."""

    again: bool
    delay_s: float = 0.0
    note: str = ""


class Caller:
    """Sends the calls of one model."""

    def __init__(
        self,
        limiter: Limiter,
        policy: CallPolicy,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self._limiter = limiter
        self._policy = policy
        self._clock = clock
        self._rng = rng or random.Random()
        self._retry = RetryPolicy(policy.max_retries)

    async def call(self, send: Send, tokens: int = 0) -> ModelReply:
        """Send until it succeeds or must end; `tokens` is the estimate that limits charge.

        Raises EndpointFault, which says how many requests were made. The reply's usage counts
        them too.
        """
        requests = 0
        while True:
            await self._limiter.enter(self._clock, tokens)
            requests += 1
            try:
                reply = await send()
            except RequestFailed as error:
                failure = error.failure
                verdict = self._judge(failure, requests - 1)
                shared = verdict.again and _is_shared(failure)
                if shared:  # before the permit is free, so that nobody slips through
                    self._limiter.pause(self._clock, verdict.delay_s)
            else:
                self._succeeded(reply, tokens)
                return replace(reply, usage=replace(reply.usage, requests=requests))
            finally:
                self._limiter.leave()
            if not verdict.again:
                raise self._fault(failure, requests, verdict.note)
            if not shared:
                await self._clock.sleep(verdict.delay_s)

    def _judge(self, failure: Failure, retries_done: int) -> _Verdict:
        asked = failure.retry_after_s
        limit = self._policy.max_retry_after_s
        if not failure.permanent and asked is not None and asked > limit:
            return _Verdict(
                False,
                note=f"; it asks to wait {asked:,.0f} s, more than max_retry_after_s={limit:g}",
            )
        decision = self._retry.decide(
            failure.message,
            retries_done,
            permanent=failure.permanent,
            retry_after_s=asked,
            rng=self._rng,
        )
        return _Verdict(decision.retry, decision.delay_s)

    def _fault(self, failure: Failure, requests: int, note: str) -> EndpointFault:
        permanent = failure.permanent or requests > 1 or bool(note)
        if permanent:
            failure = replace(failure, retry_after_s=None)
        return fault(failure, requests, permanent=permanent, note=note)

    def _succeeded(self, reply: ModelReply, estimated: int) -> None:
        used = reply.usage.input_tokens + reply.usage.output_tokens
        self._limiter.succeeded(estimated, used)


def _is_shared(failure: Failure) -> bool:
    return failure.category is Category.RATE_LIMITED or failure.retry_after_s is not None
