"""The policy's input: the conversation, with exactly one truthful result for every call.

Texts are made from the state of the action, never remembered: "did not run" is said only where it
is proven. Internal events (pauses, waits, claims) are not part of the conversation.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, overload

from proctor.agent.core.view import ActionView, TurnView, View
from proctor.kernel import jsontext

Message: TypeAlias = Mapping[str, Any]


def result_text(view: View, action: ActionView) -> str:
    """What the model is told about an action, by its state."""
    state = action.state
    if action.spawned and not action.started_seq and state not in ("unknown", "stopped"):
        return _subtask(action)
    if state == "done":
        return f"{action.text}\n[stopped before its end]" if action.timed_out else action.text
    if state == "failed":
        return _failed(action)
    if state == "cancelled":
        if not action.started_seq:
            return f"Not executed: {action.reason or 'cancelled before it was started'}."
        if action.past == "done":
            return "; ".join(t for t in ("Cancelled after it took effect", action.text) if t)
        return "Stopped; it had no effect."
    if state in ("unknown", "stopped"):
        return (
            "Started; its outcome is not known. It may have taken effect. Do not repeat it blindly:"
            " check first."
        )
    if state in ("running", "verifying"):
        return "Started; it has not ended yet."
    if action.attempts:  # ready or waiting again: only where an attempt had no effect
        return "Not finished: it is to be tried again."
    return "Not executed yet."


def _subtask(action: ActionView) -> str:
    """An action whose subtask was started, and which was not: what the subtask did, it did."""
    said = action.answer if isinstance(action.answer, Mapping) else {}
    ended = f"Its subtask has ended ({said['state']})" if "state" in said else ""
    if action.open:
        return f"{ended}." if ended else "Its subtask was started and has not ended yet."
    words = (ended or "Its subtask was started", "what it did stays done", action.reason)
    return "; ".join(text for text in (*words, str(said.get("result") or "")) if text)


def _failed(action: ActionView) -> str:
    if not action.started_seq:
        return f"Not executed: {action.reason}"
    return "Failed: " + "; ".join(text for text in (action.reason, action.text) if text)


class Told(Sequence[Message]):
    """A conversation up to one moment. Its messages are made when somebody looks at them."""

    def __init__(
        self, kept: "Conversation", view: View, items: int, settled: int, length: int, replies: int
    ) -> None:
        self._kept = kept
        self._view = view
        self._items = items  # the first of the view's items are settled: they give …
        self._settled = settled  # … so many messages
        self._length = length
        self.replies = replies
        """How many of its messages are the policy's."""
        self._made: list[Message] | None = None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Message]: ...
    def __getitem__(self, place: int | slice) -> Message | Sequence[Message]:
        return self.messages[place]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __eq__(self, other: object) -> bool:
        return self.messages == other if isinstance(other, list) else self is other

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Sequence[Message]) -> list[Message]:
        return [*self.messages, *other]

    @property
    def messages(self) -> list[Message]:
        """All of them, made once."""
        if self._made is None:
            view, items = self._view, self._items
            self._made = self._kept.settled(view, items, self._settled)
            for place in range(items, len(view.items)):
                self._made += _item(view, view.items[place])
        return self._made


class Conversation:
    """The conversation of one run, kept while it grows: what can change no more is counted and
    made once, or a long run would take quadratic time."""

    def __init__(self) -> None:
        self._made: list[Message] = []
        self._items_made = 0
        self._items = 0  # settled, and counted
        self._length = 1  # the goal
        self._replies = 0

    def of(self, view: View) -> Told:
        """The conversation in the form of chat completions: the goal, messages, turns with calls
        and their results in the order of the calls. `view` must be of the same run as before, and
        not older."""
        items, count = view.items, len(view.items)
        while self._items < count and _is_settled(view, item := items[self._items]):
            length = _length(view, item)
            self._length += length
            self._replies += item[0] == "turn" and length > 0
            self._items += 1
        length, replies = self._length, self._replies
        for place in range(self._items, count):
            more = _length(view, items[place])
            length += more
            replies += items[place][0] == "turn" and more > 0
        return Told(self, view, self._items, self._length, length, replies)

    def settled(self, view: View, items: int, length: int) -> list[Message]:
        """The messages of the first `items` of the view, which are settled; `length` of them."""
        if not self._made:
            self._made.append({"role": "user", "content": str(view.task.get("goal", ""))})
        while self._items_made < items:
            self._made += _item(view, view.items[self._items_made])
            self._items_made += 1
        return self._made[:length]


def messages(view: View) -> list[Message]:
    """`Conversation.of` for one look."""
    return Conversation().of(view).messages


def _is_settled(view: View, item: tuple[str, Any]) -> bool:
    turn = view.turn(item[1]) if item[0] == "turn" else None
    if turn is None:
        return True
    if turn.state == "open":
        return False
    found = (view.action(name) for kind, name in turn.outcomes.values() if kind == "action")
    return all(action is not None and not action.open for action in found)


def _length(view: View, item: tuple[str, Any]) -> int:
    """How many messages `_item` gives."""
    if item[0] != "turn":
        return 1
    turn = view.turn(item[1])
    return 0 if turn is None or turn.state != "replied" else 1 + len(turn.calls)


def _item(view: View, item: tuple[str, Any]) -> list[Message]:
    kind, value = item
    if kind == "message":
        return [{"role": "user", "content": value}]
    if kind == "judged":
        reasons = "\n".join(f"- {reason}" for reason in value)
        return [{"role": "user", "content": f"The result is not accepted:\n{reasons}"}]
    turn = view.turn(value)
    return [] if turn is None or turn.state != "replied" else _turn(view, turn)


def _turn(view: View, turn: TurnView) -> list[Message]:
    said: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.calls:
        said["tool_calls"] = [_call(call) for call in turn.calls]
    return [said, *(_result(view, turn, call) for call in turn.calls)]


def _call(call: Mapping[str, Any]) -> Message:
    function = {"name": call["tool"], "arguments": jsontext.dumps(call["arguments"])}
    return {"id": call["call_id"], "type": "function", "function": function}


def _result(view: View, turn: TurnView, call: Mapping[str, Any]) -> Message:
    kind, value = turn.outcomes.get(call["call_id"], ("refused", "it was not taken up"))
    action = view.action(value) if kind == "action" else None
    text = f"Not executed: {value}" if action is None else result_text(view, action)
    return {"role": "tool", "tool_call_id": call["call_id"], "content": text}


def assembled(view: View, given: Sequence[Message]) -> dict[str, Any]:
    """The record of what went into an input: up to which event, how much, which results."""
    told = {a.id: a.state for a in view.unfinished()}
    return {"up_to": view.version, "messages": len(given), "open": told}
