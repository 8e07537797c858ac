"""Error bodies and headers of scripted faults, the same in process and over HTTP."""

from datetime import datetime, timedelta
from email.utils import format_datetime

from proctor.kernel import jsontext
from proctor.models.scripted.rules import FaultSpec

_WORDS = {
    400: "invalid_request_error",
    401: "invalid_api_key",
    403: "permission_denied",
    404: "not_found",
    413: "request_too_large",
    429: "rate_limit_exceeded",
    500: "server_error",
    503: "overloaded",
}


def error_body(spec: FaultSpec) -> bytes:
    """The body of a status fault: as given, else the usual error object."""
    if spec.body is not None:
        return spec.body.encode("utf-8")
    status = spec.status or 500
    code = spec.code or _WORDS.get(status, "error")
    error = {"message": spec.message or f"scripted {status}", "type": code, "code": code}
    return jsontext.dumps({"error": error}).encode("utf-8")


def retry_after_header(spec: FaultSpec, now: datetime) -> str | None:
    """The Retry-After header of a fault, None when it has none."""
    if spec.retry_after_date_s is not None:
        moment = now + timedelta(seconds=spec.retry_after_date_s)
        return format_datetime(moment.replace(microsecond=0), usegmt=True)
    return None if spec.retry_after is None else str(spec.retry_after)
