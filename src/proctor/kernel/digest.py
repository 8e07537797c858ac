"""Digests name content: `sha256:<64 hex>`."""

import hashlib
from typing import Any

from proctor.kernel.jsontext import canonical


def of_bytes(data: bytes) -> str:
    """Digest of raw bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def of_json(value: Any) -> str:
    """Digest of a JSON value's canonical text; equal values have equal digests."""
    return of_bytes(canonical(value).encode("utf-8"))
