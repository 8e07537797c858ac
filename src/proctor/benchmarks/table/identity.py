"""Task ids of a data file: taken as they are, checked, and never doubled."""

from typing import Any

from proctor.benchmarks.table.problems import Problems
from proctor.benchmarks.table.reading import kind_of
from proctor.kernel.ids import id_problem


class Ids:
    """The ids of one file. Without an id column the physical line number is the id."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._line_of: dict[str, int] = {}
        self._without: list[int] = []

    def take(self, line: int, has_column: bool, value: Any) -> str | None:
        """The id of the row that starts at `line`, or None after noting why it has none."""
        if not has_column:
            self._without.append(line)
            return str(line)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            problem = f"an id must be text or an integer, found {kind_of(value)}"
            self._problems.add(line, problem)
            return None
        if problem_found := id_problem(value):
            self._problems.add(line, problem_found)
            return None
        first = self._line_of.setdefault(value, line)
        if first != line:
            self._problems.add(line, f"the id {value!r} is already on line {first}")
            return None
        return value

    def finish(self) -> None:
        """Rows without an id are a fault only where other rows have one."""
        if self._line_of:
            for line in self._without:
                self._problems.add(line, "no id in this row, but other rows have one")
