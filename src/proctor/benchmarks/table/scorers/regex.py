"""`regex`: a regular expression (Python's `re`) is found in the answer.

The expression is the row's target, or the option `pattern` for all rows. It is searched for, not
matched from the start; write `^` and `$` or inline flags such as `(?s)` where they are meant.
"""

import re

from proctor.benchmarks.table.options import TableOptions
from proctor.benchmarks.table.scorers.contract import (
    MAX_ANSWER_CHARS,
    RIGHT,
    WRONG,
    Scorer,
    Verdict,
    not_scored,
    text_of,
    unparsed,
)
from proctor.benchmarks.table.scorers.regex_worker import RegexSearch, SearchFailed, SearchTimeout
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel.errors import OptionError
from proctor.kernel.jsontext import JsonValue

TIME_LIMIT_S = 2.0
MAX_PATTERN_CHARS = 10_000


def pattern_problem(pattern: str) -> str | None:
    """Why `pattern` is no regular expression, or None."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return f"the regular expression has more than {MAX_PATTERN_CHARS} characters"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    return None


class Regex(Scorer):
    """Found or not, searched in a worker process under a time limit."""

    id = "regex"
    own_options = ("pattern", "ignore_case", "time_limit_s")
    target_is_answer = False

    def __init__(self, options: TableOptions, argument: str = "") -> None:
        super().__init__(options, argument)
        if problem := pattern_problem(options.pattern):
            raise OptionError(f"benchmark.pattern: {problem}")
        # One pattern for all rows needs no targets.
        self.needs_target = not options.pattern
        self._search = RegexSearch(options.time_limit_s or TIME_LIMIT_S)

    def target_problem(self, target: JsonValue) -> str | None:
        """The target must compile."""
        return None if self.options.pattern else pattern_problem(text_of(target))

    async def score(self, answer: JsonValue, task: TaskSpec) -> Verdict:
        """1 when found. A search over its time limit is not scored."""
        text = text_of(answer)
        if len(text) > MAX_ANSWER_CHARS:
            return unparsed(f"the answer has more than {MAX_ANSWER_CHARS} characters")
        pattern = self.options.pattern or text_of(task.target)
        try:
            found = await self._search.search(pattern, text, self.options.ignore_case)
        except SearchTimeout as error:
            return not_scored("scorer_timeout", f"the search for the expression {error}")
        except SearchFailed as error:
            return not_scored("scorer_failed", f"the search for the expression failed: {error}")
        return RIGHT if found else WRONG

    async def close(self) -> None:
        """End the worker processes."""
        await self._search.close()
