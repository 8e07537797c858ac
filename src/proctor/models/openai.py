"""Models behind an OpenAI-compatible chat completions endpoint; the default adapter."""

import contextlib
import os
import random
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proctor.kernel import jsontext
from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.errors import ModelFault, OptionError
from proctor.kernel.redact import REDACTED
from proctor.models.calls import Caller, CallPolicy
from proctor.models.chatreply import parse_body, reply_of
from proctor.models.chatstream import collect
from proctor.models.contract import CallContext, Message, Model, ModelReply, Usage
from proctor.models.errors import RequestFailed, classify
from proctor.models.http.client import Bounds, HttpClient, Request, Response
from proctor.models.http.connection import Headers
from proctor.models.http.endpoint import Endpoint
from proctor.models.limits import Limits, limiter
from proctor.models.prices import Prices
from proctor.models.sampling import Sampling

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_KEY_ENV = "OPENAI_API_KEY"
OWN_FIELDS = frozenset(["model", "messages", "stream", "stream_options", "n"])
"""Fields of a request that options cannot set."""

MAX_ERROR_BYTES = 65536


class ModelLimits(BaseModel):
    """Limits of this model in this process; 0 is off."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrency: int = Field(default=0, ge=0)
    rpm: int = Field(default=0, ge=0)
    tpm: int = Field(default=0, ge=0)


class OpenAIOptions(Sampling):
    """Options of the adapter `openai`; all durations in seconds."""

    base_url: str | None = None
    """Default: the environment's OPENAI_BASE_URL, else OpenAI's own."""
    api_key_env: str | None = None
    """The variable that holds the key. Default: OPENAI_API_KEY."""
    stream: bool = False
    """Ask for a streamed answer; the result is the same."""
    response_format: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request, as the endpoint knows them."""
    max_retries: int = Field(default=5, ge=0, le=100)
    """Repetitions of a request that failed transiently."""
    max_retry_after_s: float = Field(default=60.0, ge=0, allow_inf_nan=False)
    """A longer Retry-After ends the call at once."""
    connect_timeout_s: float = Field(default=10.0, gt=0, allow_inf_nan=False)
    first_byte_timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Until the answer begins. Default: only the whole answer is timed."""
    timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    """Until the answer is complete."""
    max_response_bytes: int = Field(default=32 * 1024 * 1024, ge=1)
    identify_calls: bool = False
    """Send task id and attempt as X-Proctor-Task and X-Proctor-Attempt (for a scripted server)."""
    limits: ModelLimits | None = None
    prices: Prices | None = None

    @field_validator("extra_body")
    @classmethod
    def _own_fields(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(OWN_FIELDS & set(value)):
            raise ValueError(f"{', '.join(taken)} cannot be set here")
        return value


class OpenAIModel(Model):
    """One model at one endpoint. Safe to use from several event loops."""

    id = "openai"
    version = "1"
    Options = OpenAIOptions

    def __init__(
        self,
        name: str,
        options: Any = None,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(name, options or OpenAIOptions())
        given: OpenAIOptions = self.options
        base_url = given.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        try:
            self._endpoint = Endpoint.parse(base_url)
        except ValueError as error:
            raise OptionError(
                f"model.base_url: {error}", hint="for example http://127.0.0.1:8000/v1"
            ) from None
        self._key_env = given.api_key_env or DEFAULT_KEY_ENV
        self._key_required = given.api_key_env is not None or base_url == DEFAULT_BASE_URL
        bounds = Bounds(
            given.connect_timeout_s,
            given.first_byte_timeout_s,
            given.timeout_s,
            given.max_response_bytes,
        )
        self._client = HttpClient(self._endpoint, bounds, tls)
        self._target = self._endpoint.target("/chat/completions")
        self._clock: Clock = clock or SystemClock()
        shared = limiter(str(self._endpoint), name, self._clock)
        if given.limits is not None:
            shared.configure(Limits(**given.limits.model_dump()))
        policy = CallPolicy(given.max_retries, given.max_retry_after_s)
        self._caller = Caller(shared, policy, self._clock, rng)

    def requirements(self) -> list[str]:
        key = os.environ.get(self._key_env, "")
        if not key:
            if not self._key_required or not self.name:
                return []
            return [f"the variable {self._key_env} is not set: it must hold the API key"]
        if not key.isascii() or not key.isprintable() or " " in key:
            return [f"the variable {self._key_env} does not hold a key: it has blanks or the like"]
        return []

    def settings(self) -> dict[str, Any]:
        return {
            **super().settings(),
            "base_url": str(self._endpoint),
            "parameters": self._parameters({}),
        }

    async def complete(
        self, messages: Sequence[Message], *, context: CallContext, **parameters: Any
    ) -> ModelReply:
        """One completion; `parameters` override the options, None removes one.

        Raises ModelFault; its `fault_code` is a word of `proctor.models.errors`.
        """
        fields = self._parameters(parameters)
        headers = self._headers(context)

        def body() -> bytes:
            return self._body(messages, fields)

        request = Request("POST", self._target, headers, body)
        reply = await self._caller.call(partial(self._send, request), _estimate(messages, fields))
        if self.options.prices is not None and "usage_missing" not in reply.extra:
            cost = self.options.prices.cost_usd(reply.usage)
            return replace(reply, usage=replace(reply.usage, cost_usd=cost))
        return reply

    def worst_case(
        self, messages: Sequence[Message], parameters: Mapping[str, Any]
    ) -> Usage | None:
        """A token holds at least one byte, so the request's bytes bound its input tokens."""
        fields = self._parameters(parameters)
        longest = fields.get("max_completion_tokens", fields.get("max_tokens"))
        if not isinstance(longest, int):
            return None
        usage = Usage(len(self._body(messages, fields)), longest, requests=1)
        prices = self.options.prices
        return replace(usage, cost_usd=prices.cost_usd(usage)) if prices is not None else usage

    async def close(self) -> None:
        await self._client.close()

    @property
    def connections_opened(self) -> int:
        """Connections made so far, to see that they are used again."""
        return self._client.opened

    def _parameters(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        options = self.options
        fields = {**options.parameters(), **options.extra_body}
        for name in ("response_format", "tools"):
            if (value := getattr(options, name)) is not None:
                fields[name] = value
        fields.update(overrides)
        return {k: v for k, v in fields.items() if v is not None and k not in OWN_FIELDS}

    def _headers(self, context: CallContext) -> Headers:
        problems = self.requirements()
        if problems:
            raise ModelFault(problems[0], code="authentication", permanent=True)
        headers = [
            (b"Host", self._endpoint.authority.encode("ascii")),
            (b"Content-Type", b"application/json"),
            (b"Accept", b"text/event-stream" if self.options.stream else b"application/json"),
            (b"User-Agent", b"proctor"),
        ]
        if key := os.environ.get(self._key_env):
            headers.append((b"Authorization", b"Bearer " + key.encode("ascii")))
        if self.options.identify_calls:
            headers.append((b"X-Proctor-Task", quote(context.task_id, safe="").encode("ascii")))
            headers.append((b"X-Proctor-Attempt", str(context.attempt).encode("ascii")))
        return headers

    def _body(self, messages: Sequence[Message], fields: Mapping[str, Any]) -> bytes:
        request: dict[str, Any] = {"model": self.name, "messages": list(messages), **fields}
        if self.options.stream:
            request["stream"] = True
            request["stream_options"] = {"include_usage": True}
        try:
            return jsontext.dumps(request).encode("utf-8")
        except jsontext.JsonError as error:
            raise ModelFault(
                f"the request is not JSON: {error}", code="invalid_request", permanent=True
            ) from None

    async def _send(self, request: Request) -> ModelReply:
        try:
            async with self._client.request(request) as response:
                if response.status != 200:
                    raise await self._refused(response)
                content_type = response.headers.get("content-type", "")
                if content_type.lower().startswith("text/event-stream"):
                    return reply_of(await collect(response.chunks()))
                return reply_of(parse_body(await response.read(), content_type))
        except RequestFailed as error:
            raise RequestFailed(
                replace(error.failure, message=self._without_key(error.failure.message))
            ) from None

    async def _refused(self, response: Response) -> RequestFailed:
        body = bytearray()
        with contextlib.suppress(RequestFailed):  # a broken body does not change its status
            async for chunk in response.chunks():
                body += chunk
                if len(body) >= MAX_ERROR_BYTES:
                    break
        now = self._clock.now()
        return RequestFailed(classify(response.status, response.headers, bytes(body), now))

    def _without_key(self, text: str) -> str:
        key = os.environ.get(self._key_env)
        return text.replace(key, REDACTED) if key else text


def _estimate(messages: Sequence[Message], fields: Mapping[str, Any]) -> int:
    """Tokens to reserve: four characters a token for the input, plus the longest answer."""
    size = sum(len(c) for message in messages if isinstance(c := message.get("content"), str))
    longest = fields.get("max_tokens")
    return size // 4 + (longest if isinstance(longest, int) else 0)


__all__ = ["DEFAULT_BASE_URL", "ModelLimits", "OpenAIModel", "OpenAIOptions"]
