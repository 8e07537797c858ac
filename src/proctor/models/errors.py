"""What can go wrong with a request to a model, and whether sending it again could help.

    category          permanent   from
    rate_limited      no          429
    quota_exhausted   yes         429 whose code says that the account's money is spent
    server_error      no          5xx
    connection        no          refused, reset, name not resolved, TLS
    timeout           no          connect, first byte or total time; 408
    truncated         no          the reply was cut: connection lost, or a tool call broken off
    malformed         no          HTML, bad JSON, no choices, no content
    too_large         yes         more bytes than `max_response_bytes`
    context_exceeded  yes         413, or a body that says so, whatever its status
    authentication    yes         401, 403
    invalid_request   yes         every other 4xx, and redirects

A category's word is the `fault_code` of the ModelFault that comes out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from proctor.kernel import jsontext
from proctor.kernel.errors import ModelFault

SHOWN_CHARS = 500
"""How much of an endpoint's own text an error message repeats."""


class Category(StrEnum):
    """Kinds of failure; see the table above."""

    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    CONTEXT_EXCEEDED = "context_exceeded"
    AUTHENTICATION = "authentication"
    INVALID_REQUEST = "invalid_request"


PERMANENT = frozenset(
    [
        Category.QUOTA_EXHAUSTED,
        Category.TOO_LARGE,
        Category.CONTEXT_EXCEEDED,
        Category.AUTHENTICATION,
        Category.INVALID_REQUEST,
    ]
)
"""Categories that the same request would meet again."""

_HINTS = {
    Category.QUOTA_EXHAUSTED: "add credit to the account, then `proctor resume`",
    Category.CONNECTION: "check the base URL and that the endpoint is up",
    Category.TIMEOUT: "raise `-p model.timeout_s=` if the endpoint is only slow",
    Category.MALFORMED: "check that the base URL speaks chat completions (it usually ends in /v1)",
    Category.TOO_LARGE: "limit the answer with `-p model.max_tokens=`",
    Category.AUTHENTICATION: "check the key in the variable that `model.api_key_env` names",
}

_CONTEXT = re.compile(
    r"context_length_exceeded|maximum context length|context (?:length|window|size)\b.{0,80}"
    r"\b(?:exceed|too (?:long|large|small))|exceeds?\b.{0,80}\bcontext (?:length|window|size)"
    r"|prompt is too long|input is too long",
    re.IGNORECASE | re.DOTALL,
)
_QUOTA = frozenset(["insufficient_quota", "billing_hard_limit_reached"])


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request. `retry_after_s` is the wait the endpoint asked for, if it is usable."""

    category: Category
    message: str
    status: int | None = None
    retry_after_s: float | None = None

    @property
    def permanent(self) -> bool:
        """Whether the same request would fail again."""
        return self.category in PERMANENT


class RequestFailed(Exception):
    """Carries a Failure from the transport or the parser to the retry layer."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


def failed(category: Category, message: str, status: int | None = None) -> RequestFailed:
    """A RequestFailed to raise."""
    return RequestFailed(Failure(category, message, status))


class EndpointFault(ModelFault):
    """A model call failed for good.

    `requests` is how many requests were sent for the call, `status` the last HTTP status.
    """

    def __init__(self, message: str, *, requests: int, status: int | None, **fault: Any) -> None:
        super().__init__(message, **fault)
        self.requests = requests
        self.status = status


def fault(failure: Failure, requests: int, *, permanent: bool, note: str = "") -> EndpointFault:
    """The exception for `failure` after `requests` requests."""
    sent = f"{requests} request" + ("" if requests == 1 else "s")
    return EndpointFault(
        f"{failure.message} ({failure.category.value}; {sent} sent{note})",
        requests=requests,
        status=failure.status,
        code=failure.category.value,
        permanent=permanent,
        retry_after_s=failure.retry_after_s,
        hint=_HINTS.get(failure.category),
    )


def classify(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> Failure:
    """What a reply with an error status means. `headers` has lower-case names."""
    code, text = _error_text(body)
    retry_after = retry_after_s(headers.get("retry-after"), now)
    category = _category(status, code, text)
    said = f": {shown(text)}" if text else ""
    return Failure(category, f"the endpoint answered {status}{said}", status, retry_after)


def _category(status: int, code: str, text: str) -> Category:
    if status == 429:
        return Category.QUOTA_EXHAUSTED if code in _QUOTA else Category.RATE_LIMITED
    if status == 413 or says_context_exceeded(code, text):
        return Category.CONTEXT_EXCEEDED
    if status in (401, 403):
        return Category.AUTHENTICATION
    if status == 408:
        return Category.TIMEOUT
    if status >= 500:
        return Category.SERVER_ERROR
    return Category.INVALID_REQUEST


def says_context_exceeded(code: str, text: str) -> bool:
    """Whether an error's code or text is about the length of the input."""
    return _CONTEXT.search(code) is not None or _CONTEXT.search(text) is not None


def error_fields(error: Any) -> tuple[str, str]:
    """Code and text of an error object in any of the shapes that endpoints use."""
    if isinstance(error, str):
        return "", error
    if not isinstance(error, dict):
        return "", ""
    code = next((c for key in ("code", "type") if isinstance(c := error.get(key), str)), "")
    text = next((m for key in ("message", "detail") if isinstance(m := error.get(key), str)), "")
    return code, text or jsontext.dumps(error)


def _error_text(body: bytes) -> tuple[str, str]:
    text = body[:65536].decode("utf-8", "replace")
    try:
        data = jsontext.loads(text)
    except jsontext.JsonError:
        return "", text
    if isinstance(data, dict) and data.get("error"):
        return error_fields(data["error"])
    return error_fields(data)


def shown(text: str) -> str:
    """An endpoint's text for one line of a message: no control characters, bounded."""
    line = " ".join("".join(ch if ch.isprintable() else " " for ch in text[:4000]).split())
    return line if len(line) <= SHOWN_CHARS else line[:SHOWN_CHARS] + "…"


_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds to wait by a Retry-After header: a number of seconds or an HTTP date.

    None (the ordinary back-off applies) for no header, zero, a negative number, a date that is
    not in the future, and anything that is neither.
    """
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        wait = float(value)
    else:
        moment = _http_date(value)
        if moment is None:
            return None
        wait = (moment - now).total_seconds()
    return wait if wait > 0 else None


def _http_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
