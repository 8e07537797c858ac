"""Which texts can name an image: an engine is asked about it by a path that holds the name."""

import re

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,511}")


def image_name_problem(name: str) -> str:
    """Why `name` cannot be the name of an image; empty when it can."""
    if _IMAGE.fullmatch(name) and not {"", ".", ".."}.intersection(name.split("/")):
        return ""
    return f"{name[:200]!r} is not the name of an image"
