"""Which reply a call gets: rules matched in order, uses counted per caller."""

import fnmatch
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import merge
from typing import Any

from proctor.kernel import digest
from proctor.models.scripted.rules import ReplySpec, RuleFile, RuleSpec

DEFAULT = "default"
"""The name under which uses of the file's default reply are counted."""


@dataclass(frozen=True)
class Ask:
    """One call, as far as rules look at it. A caller without a task id is told apart by the
    beginning of its conversation: the messages before the first assistant message."""

    messages: Sequence[Mapping[str, Any]]
    task_id: str | None = None
    attempt: int | None = None
    model: str = ""
    reference: str | None = None

    @cached_property
    def turn(self) -> int:
        return 1 + sum(1 for message in self.messages if message.get("role") == "assistant")

    @cached_property
    def last_message(self) -> str:
        return content_text(self.messages[-1].get("content")) if self.messages else ""

    @cached_property
    def conversation(self) -> str:
        """What stands for the task when its id is unknown."""
        if self.task_id is not None:
            return "id:" + self.task_id
        opening = []
        for message in self.messages:
            if message.get("role") == "assistant":
                break
            opening.append(message)
        return digest.of_json(opening)


def content_text(content: Any) -> str:
    """The text of a message's content: a text, or a list of parts of which texts count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A reply and the name of the rule that gave it."""

    rule: str
    reply: ReplySpec


@dataclass(frozen=True, slots=True)
class _Rule:
    order: int
    name: str
    spec: RuleSpec
    task: Callable[[str], Any] | None
    message: re.Pattern[str] | None
    model: Callable[[str], Any] | None

    def holds(self, ask: Ask) -> bool:
        when = self.spec.when
        if self.task is not None and (ask.task_id is None or not self.task(ask.task_id)):
            return False
        if when.attempt is not None and ask.attempt not in when.attempt:
            return False
        if when.turn is not None and ask.turn not in when.turn:
            return False
        if when.message_is is not None and ask.last_message.strip() != when.message_is:
            return False
        if self.model is not None and not self.model(ask.model):
            return False
        return self.message is None or self.message.search(ask.last_message) is not None

    def use_key(self, ask: Ask) -> tuple[Any, ...]:
        if self.spec.per == "file":
            return (self.order,)
        if self.spec.per == "task":
            return (self.order, ask.conversation)
        return (self.order, ask.conversation, ask.attempt)

    @property
    def counts_uses(self) -> bool:
        spec = self.spec
        return spec.times is not None or (spec.replies is not None and spec.by == "use")

    def pick(self, ask: Ask, uses: int) -> ReplySpec | None:
        """The reply for a rule used `uses` times before, None when there is none (any more)."""
        spec = self.spec
        if spec.times is not None and uses >= spec.times:
            return None
        if spec.replies is None:
            return spec.reply
        number = {"use": uses + 1, "attempt": ask.attempt, "turn": ask.turn}[spec.by]
        if number is None or number > len(spec.replies):
            return None
        return spec.replies[number - 1]


@dataclass(slots=True)
class Script:
    """Rules made ready to answer, with their counts. Safe to share between threads.

    Rules with a literal `task` or `message_is` are found by hashing, so a file with one rule for
    each of thousands of tasks answers in constant time; the others are tried in order.
    """

    file: RuleFile
    uses_by_rule: Counter[str] = field(default_factory=Counter)
    _by_task: dict[str, list[_Rule]] = field(default_factory=dict)
    _by_message: dict[str, list[_Rule]] = field(default_factory=dict)
    _others: list[_Rule] = field(default_factory=list)
    _uses: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for order, spec in enumerate(self.file.rules):
            rule = _compile(order, spec)
            when = spec.when
            if when.task is not None and not _is_glob(when.task):
                self._by_task.setdefault(when.task, []).append(rule)
            elif when.message_is is not None:
                self._by_message.setdefault(when.message_is, []).append(rule)
            else:
                self._others.append(rule)

    def choose(self, ask: Ask) -> Chosen | None:
        """The reply to `ask`, counted as used; None when no rule holds and there is no default."""
        for rule in self._candidates(ask):
            if rule.holds(ask) and (reply := self._use(rule, ask)) is not None:
                return Chosen(rule.name, reply)
        if self.file.default is None:
            return None
        with self._lock:
            self.uses_by_rule[DEFAULT] += 1
        return Chosen(DEFAULT, self.file.default)

    def _candidates(self, ask: Ask) -> Iterator[_Rule]:
        lists = [self._others]
        if self._by_task and ask.task_id is not None:
            lists.append(self._by_task.get(ask.task_id, []))
        if self._by_message:
            lists.append(self._by_message.get(ask.last_message.strip(), []))
        if len(lists) == 1:
            return iter(self._others)
        return merge(*lists, key=lambda rule: rule.order)

    def _use(self, rule: _Rule, ask: Ask) -> ReplySpec | None:
        key = rule.use_key(ask) if rule.counts_uses else None
        with self._lock:
            reply = rule.pick(ask, self._uses[key] if key is not None else 0)
            if reply is not None:
                self.uses_by_rule[rule.name] += 1
                if key is not None:
                    self._uses[key] += 1
            return reply


def _compile(order: int, spec: RuleSpec) -> _Rule:
    when = spec.when
    return _Rule(
        order,
        spec.name or f"rule-{order + 1}",
        spec,
        _glob(when.task),
        None if when.message is None else re.compile(when.message),
        _glob(when.model),
    )


def _is_glob(pattern: str) -> bool:
    return any(ch in pattern for ch in "*?[")


def _glob(pattern: str | None) -> Callable[[str], Any] | None:
    if pattern is None:
        return None
    if not _is_glob(pattern):
        return pattern.__eq__
    return re.compile(fnmatch.translate(pattern)).match
