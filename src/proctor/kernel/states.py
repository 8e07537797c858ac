"""A transition table that can check, advance and draw itself."""

from collections.abc import Mapping
from dataclasses import dataclass


class IllegalTransition(Exception):
    """The state does not allow this event."""


@dataclass(frozen=True, slots=True)
class Machine:
    """States and events as data: `table[state][event] -> next state`."""

    name: str
    initial: str
    table: Mapping[str, Mapping[str, str]]

    @property
    def states(self) -> frozenset[str]:
        """Every state that occurs in the table."""
        found = {self.initial, *self.table}
        for moves in self.table.values():
            found.update(moves.values())
        return frozenset(found)

    def is_final(self, state: str) -> bool:
        """Whether no event leaves `state`."""
        return not self.table.get(state)

    def advance(self, state: str, event: str) -> str:
        """The state after `event`. Raises IllegalTransition."""
        try:
            return self.table[state][event]
        except KeyError:
            raise IllegalTransition(f"{self.name}: {event!r} in state {state!r}") from None

    def mermaid(self) -> str:
        """The table as a Mermaid state diagram."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial}"]
        for state, moves in self.table.items():
            lines += [f"    {state} --> {to}: {event}" for event, to in moves.items()]
        lines += [f"    {s} --> [*]" for s in sorted(self.states) if self.is_final(s)]
        return "\n".join(lines) + "\n"
