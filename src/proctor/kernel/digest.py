"""Digests name content: `sha256:<64 hex>`."""

import hashlib
from typing import Any

from proctor.kernel.jsontext import canonical


def of_bytes(data: bytes) -> str:
    """Digest of raw bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def of_text(text: str) -> str:
    """Digest of a text's UTF-8."""
    return of_bytes(text.encode("utf-8"))


def of_json(value: Any) -> str:
    """Digest of a JSON value's canonical text; equal values have equal digests."""
    return of_text(canonical(value))
