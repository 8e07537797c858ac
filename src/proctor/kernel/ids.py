"""Ids are data; names of files and directories are derived from them, safely and injectively."""

import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache

_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{n}{i}" for n in ("com", "lpt") for i in range(1, 10))]
)
READABLE_LIMIT = 80
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def id_problem(value: object) -> str | None:
    """Why `value` cannot be a task id, or None. Everything but the listed problems is allowed."""
    if not isinstance(value, str):
        return f"an id must be text, found {type(value).__name__}"
    if not value.strip():
        return "an id must not be empty"
    if value != value.strip():
        return f"an id must not have blanks around it: {value!r}"
    if "\0" in value:
        return "an id must not contain NUL"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return f"an id must be valid Unicode: {value!r}"
    return None


def readable(text: str, limit: int = READABLE_LIMIT) -> str:
    """A portable, readable name for `text`: `[A-Za-z0-9._-]`, no odd ends, never empty.

    Not injective; use `task_dir_name` where two texts must not share a name.
    """
    if _PLAIN.fullmatch(text):
        name = text
    else:
        folded = unicodedata.normalize("NFKD", text)
        name = "".join(ch if ch in _SAFE else "_" for ch in folded if not unicodedata.combining(ch))
    name = name[:limit].strip("._-") or "_"
    if name.split(".")[0].lower() in _RESERVED:
        name = "_" + name
    return name


@lru_cache(maxsize=2048)  # each attempt asks for it five times
def task_dir_name(task_id: str) -> str:
    """`<readable>--<sha256 of the exact id>`: different ids never share it, on any file system."""
    return f"{readable(task_id)}--{hashlib.sha256(task_id.encode('utf-8')).hexdigest()}"


def run_id_from_time(moment: datetime) -> str:
    """A run id made from the time, second resolution: `20260131-181114`."""
    return moment.astimezone(UTC).strftime("%Y%m%d-%H%M%S")


def run_id_problem(value: str) -> str | None:
    """Why `value` cannot be an explicit run id, or None."""
    if not value or any(ch not in _SAFE for ch in value) or readable(value, 100) != value:
        return (
            f"run id {value!r} is not portable: use up to 100 of A-Z a-z 0-9 . _ - "
            "and begin and end with a letter or digit"
        )
    return None
