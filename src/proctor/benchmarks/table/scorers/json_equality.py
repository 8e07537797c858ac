"""`json`: the answer is the same JSON value as the target.

An answer that is text is parsed as strict JSON; when the whole answer is one fenced code block,
its content is parsed. A target that is text must be JSON too: `"abc"` in quotes for a text.
Objects are equal when they have the same keys with equal values, in any order; arrays when they
have equal elements in the same order; numbers by value (1 equals 1.0); true is not 1.
"""

import re
from typing import Any

from proctor.benchmarks.table.scorers.contract import (
    MAX_ANSWER_CHARS,
    Scorer,
    Verdict,
    parsed_json,
    unparsed,
)
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel.jsontext import JsonValue

_FENCED = re.compile(r"\s*```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)\r?\n?```\s*", re.DOTALL)


def difference(given: Any, wanted: Any, subset: bool) -> str | None:
    """The path of the first difference, `$` being the whole; None when equal.

    With `subset`, objects of `given` may have keys that those of `wanted` lack. No recursion: the
    nesting of an answer is the agent's to choose.
    """
    pending: list[tuple[str, Any, Any]] = [("$", given, wanted)]
    while pending:
        path, left, right = pending.pop()
        if isinstance(right, dict):
            if not isinstance(left, dict) or not _keys_fit(left, right, subset):
                return path
            pending += [(f"{path}.{key}"[:200], left[key], right[key]) for key in right]
        elif isinstance(right, list):
            if not isinstance(left, list) or len(left) != len(right):
                return path
            pairs = zip(left, right, strict=True)
            pending += [(f"{path}[{i}]"[:200], a, b) for i, (a, b) in enumerate(pairs)]
        elif isinstance(left, bool) != isinstance(right, bool) or left != right:
            return path
    return None


def _keys_fit(left: dict[str, Any], right: dict[str, Any], subset: bool) -> bool:
    return left.keys() >= right.keys() if subset else left.keys() == right.keys()


class JsonEquality(Scorer):
    """Structural equality of JSON values."""

    id = "json"
    own_options = ("subset",)
    target_is_text = False

    def target_problem(self, target: JsonValue) -> str | None:
        """A text that is not JSON is refused rather than guessed at."""
        if isinstance(target, str):
            _, problem = parsed_json(target)
            if problem is not None:
                return f"the target is not JSON ({problem}); put a text in double quotes"
        return None

    async def score(self, answer: JsonValue, task: TaskSpec) -> Verdict:
        """1 when both values are equal."""
        given: Any = answer
        if isinstance(answer, str):
            if len(answer) > MAX_ANSWER_CHARS:
                return unparsed(f"the answer has more than {MAX_ANSWER_CHARS} characters")
            fenced = _FENCED.fullmatch(answer)
            given, problem = parsed_json(fenced[1] if fenced else answer)
            if problem is not None:
                return unparsed(f"the answer is not JSON: {problem}")
        wanted: Any = task.target
        if isinstance(wanted, str):
            wanted, _ = parsed_json(wanted)
        where = difference(given, wanted, self.options.subset)
        if where is None:
            return Verdict(1)
        return Verdict(0, evidence={"first_difference": where})
