"""All problems of a data file, told together."""

from pathlib import Path

from proctor.kernel.errors import DataError

KEPT = 1_000
"""How many problems are kept with their text; the rest is only counted."""


class Problems:
    """Collects problems by physical line and raises them as one DataError, in file order."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.count = 0
        self._kept: list[tuple[int, int, str]] = []

    def add(self, line: int, text: str) -> None:
        """Note a problem of the row that starts at `line`."""
        self.count += 1
        if len(self._kept) < KEPT:
            self._kept.append((line, self.count, f"{self.file}, line {line}: {text}"))

    def check(self, hint: str | None = None) -> None:
        """Raise DataError when there is any problem."""
        if not self.count:
            return
        found = "1 problem" if self.count == 1 else f"{self.count} problems"
        texts = [text for _, _, text in sorted(self._kept)]
        raise DataError(
            f"{found} in {self.file}; nothing was run:",
            problems=texts,
            hint=hint or "correct the listed lines",
        )
