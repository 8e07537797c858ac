"""The text files of a task folder, bounded, and what makes a folder unusable."""

from pathlib import Path

TEXT_LIMIT_BYTES = 4_000_000


class Unusable(Exception):
    """Collected problems that end the reading of one folder."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))


def read_bytes(folder: Path, name: str) -> bytes:
    """A file's bytes. Raises Unusable when it is missing or larger than 4 MB."""
    path = folder / name
    if not path.is_file():
        raise Unusable(f"{name} is missing")
    if path.stat().st_size > TEXT_LIMIT_BYTES:
        raise Unusable(f"{name} is larger than {TEXT_LIMIT_BYTES:,} bytes")
    return path.read_bytes()


def read_text(folder: Path, name: str) -> str:
    """A file's text. Raises Unusable, also when it is not UTF-8."""
    try:
        return read_bytes(folder, name).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(f"{name} is not UTF-8 (byte {error.start})") from None
