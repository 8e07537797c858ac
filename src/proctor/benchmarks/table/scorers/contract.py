"""What a scorer of `table` is: it compares one answer with one row's target.

Rules for all scorers, applied by `Table` before a scorer is asked: no answer (null) is
unavailable; an answer without any text is a valid 0 with the warning `unparsed_answer`. A scorer
says `unparsed` itself when it cannot find in the answer what it compares.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from proctor.benchmarks.table.options import TableOptions
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel import jsontext
from proctor.kernel.issues import Cause, Issue, Phase, Severity
from proctor.kernel.jsontext import JsonError, JsonValue

MAX_ANSWER_CHARS = 1_000_000
"""Scorers that parse an answer refuse a longer one as unparsed (regex, json)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The raw observation, or why there is none. `evidence` is kept with the attempt."""

    value: Any = None
    unavailable: str | None = None
    issues: tuple[Issue, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)


RIGHT = Verdict(1)
WRONG = Verdict(0)


def unparsed(reason: str) -> Verdict:
    """A valid 0: the answer is there but holds nothing that can be compared."""
    issue = Issue(Severity.WARNING, Phase.EVALUATE, Cause.AGENT, "unparsed_answer", reason)
    return Verdict(0, issues=(issue,))


EMPTY = unparsed("the answer is empty")


def not_scored(code: str, reason: str, traceback: str | None = None) -> Verdict:
    """No observation: the scorer failed, not the agent."""
    issue = Issue(Severity.ERROR, Phase.EVALUATE, Cause.EVALUATOR, code, reason, traceback)
    return Verdict(unavailable=reason, issues=(issue,))


def text_of(value: JsonValue) -> str:
    """An answer or target as text: text as it is, anything else as canonical JSON."""
    return value if isinstance(value, str) else jsontext.canonical(value)


class Scorer(ABC):
    """One way to compare. `own_options` names the fields of `TableOptions` that it reads."""

    id: ClassVar[str]
    own_options: ClassVar[tuple[str, ...]] = ()
    needs_target: bool = True
    target_is_text: ClassVar[bool] = True
    """Whether a target is text or a number (else any JSON value)."""
    target_is_answer: ClassVar[bool] = True
    """Whether the target answers the task, so that it can stand in for a missing reference."""

    def __init__(self, options: TableOptions, argument: str = "") -> None:
        self.options = options
        self.argument = argument

    def target_problem(self, target: JsonValue) -> str | None:
        """Why this target cannot be compared with, or None. Asked when rows are loaded."""
        return None

    def settings(self) -> dict[str, Any]:
        """What changes a verdict besides the target; compared before results are reused."""
        values = self.options.model_dump(mode="json", include=set(self.own_options))
        return {"scorer": self.id, **values}

    @abstractmethod
    async def score(self, answer: JsonValue, task: TaskSpec) -> Verdict:
        """Compare. Must not block the event loop; raises EvaluatorFault when it cannot work."""

    async def close(self) -> None:
        """Release processes. Idempotent."""


def parsed_json(text: str) -> tuple[Any, str | None]:
    """(value, None), or (None, why `text` is not JSON)."""
    try:
        return jsontext.loads(text), None
    except JsonError as error:
        return None, str(error)
