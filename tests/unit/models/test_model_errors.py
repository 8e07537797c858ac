"""What a failed request means, and what Retry-After asks for."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proctor.kernel.issues import Cause
from proctor.models.errors import (
    PERMANENT,
    Category,
    Failure,
    classify,
    fault,
    retry_after_s,
    shown,
)
from proctor.models.openai import OpenAIOptions

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
TOO_LONG = "This model's maximum context length is 16384 tokens. However, you requested 20000."


def error(message: str, code: str | None = None, kind: str = "x") -> bytes:
    return json.dumps({"error": {"message": message, "code": code, "type": kind}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "category"),
    [
        (400, error("too long", "context_length_exceeded"), Category.CONTEXT_EXCEEDED),
        (400, error(TOO_LONG), Category.CONTEXT_EXCEEDED),
        (400, TOO_LONG.encode(), Category.CONTEXT_EXCEEDED),
        (413, b"", Category.CONTEXT_EXCEEDED),
        (500, error(TOO_LONG), Category.CONTEXT_EXCEEDED),
        (500, TOO_LONG.encode(), Category.CONTEXT_EXCEEDED),
        (400, error("the prompt exceeds the context window"), Category.CONTEXT_EXCEEDED),
        (400, error("prompt is too long: 9 tokens > 8"), Category.CONTEXT_EXCEEDED),
        (400, error("the context window shows a field 'size'"), Category.INVALID_REQUEST),
        (400, error("Invalid schema for function 'f'"), Category.INVALID_REQUEST),
        (404, error("no such model"), Category.INVALID_REQUEST),
        (422, b'{"detail": [{"loc": ["body"]}]}', Category.INVALID_REQUEST),
        (301, b"", Category.INVALID_REQUEST),
        (401, b"", Category.AUTHENTICATION),
        (403, b"", Category.AUTHENTICATION),
        (408, b"", Category.TIMEOUT),
        (429, error(TOO_LONG), Category.RATE_LIMITED),
        (429, error("pay", "insufficient_quota"), Category.QUOTA_EXHAUSTED),
        (429, error("pay", None, "insufficient_quota"), Category.QUOTA_EXHAUSTED),
        (500, b"<html>", Category.SERVER_ERROR),
        (503, error("overloaded"), Category.SERVER_ERROR),
        (529, b"\xff\xfe\x00", Category.SERVER_ERROR),
        (500, b'{"error": "context_length_exceeded"}', Category.CONTEXT_EXCEEDED),
        (500, b"[1, NaN]", Category.SERVER_ERROR),
        (500, b'{"message": 1, "error": null}', Category.SERVER_ERROR),
    ],
)
def test_classification(status: int, body: bytes, category: Category) -> None:
    failure = classify(status, {}, body, NOW)
    assert failure.category is category
    assert failure.status == status
    assert str(status) in failure.message


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        (None, None),
        ("3", 3.0),
        (" 2.5 ", 2.5),
        ("86400", 86400.0),
        ("0", None),
        ("0.0", None),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("1e9", None),
        ("nan", None),
        ("inf", None),
        ("0x10", None),
        ("٣", None),
        ("9" * 40, None),
        ("Sat, 31 Jan 2026 12:00:04 GMT", 4.0),
        ("Saturday, 31-Jan-26 12:00:04 GMT", 4.0),
        ("Sat Jan 31 12:00:04 2026", 4.0),
        ("Sat, 31 Jan 2026 13:00:04 +0100", 4.0),
        ("Sat, 31 Jan 2026 12:00:00 GMT", None),
        ("Sat, 31 Jan 2026 11:59:00 GMT", None),
        ("Sat, 99 Jan 2026 12:00:04 GMT", None),
        ("Sat, 31 Jan 99999 12:00:04 GMT", None),
    ],
)
def test_retry_after(value: str | None, wait: float | None) -> None:
    assert retry_after_s(value, NOW) == wait


def test_the_fault_says_how_many_requests_and_what_to_do() -> None:
    found = fault(Failure(Category.AUTHENTICATION, "no", 401), 1, permanent=True)
    assert str(found) == "no (authentication; 1 request sent)"
    assert (found.fault_code, found.requests, found.status) == ("authentication", 1, 401)
    assert found.cause is Cause.MODEL_PROVIDER
    assert found.hint is not None
    assert "api_key_env" in found.hint


def test_foreign_text_is_one_bounded_line() -> None:
    text = shown("a\x1b[31m\n\n  b\u202e" + "x" * 10_000)
    assert text.startswith("a [31m b xxx")
    assert len(text) == 501
    assert text.isprintable()


def test_the_documents_name_every_category_and_option() -> None:
    text = (Path(__file__).parents[3] / "docs" / "models.md").read_text("utf-8")
    documented = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \|", text, re.MULTILINE))
    assert documented == {
        category.value: "yes" if category in PERMANENT else "no" for category in Category
    }
    missing = [name for name in OpenAIOptions.model_fields if not re.search(rf"`{name}\b", text)]
    assert missing == []
