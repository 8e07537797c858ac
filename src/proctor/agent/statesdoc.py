"""Makes `docs/states.md` from the tables: `python -m proctor.agent.statesdoc > docs/states.md`."""

import sys

from proctor.kernel.agent_states import ACTION, ENDED_RUN_STATES, RUN
from proctor.kernel.states import Machine

_HEAD = """\
# States of the agent runtime

Made from the tables in `proctor.kernel.agent_states` by `python -m proctor.agent.statesdoc`; a test
compares. What is not listed is refused. What the words mean: [the agent runtime](agent.md).
"""
_ACTION = """\
`unknown` is a state of its own: an attempt was started and nobody knows how it ended. It is left by
an answer of the other side, by a late result, by the effect class (`repeatable`: doing it again has
no second effect), or, from `stopped`, by what a person states.
"""
_RUN = """\
`finishing` is cleaning up: the run ends as it was closed once no attempt, subtask or request is
open. A `stopped` run can be resumed; `suspended` is a wish of a person, `waiting` is not.
"""


def document() -> str:
    """The whole page."""
    parts = [_HEAD, "## An action\n", _ACTION, *_section(ACTION, frozenset())]
    parts += ["## A run\n", _RUN, *_section(RUN, ENDED_RUN_STATES)]
    return "\n".join(parts)


def _section(machine: Machine, ended: frozenset[str]) -> list[str]:
    rows = ["| state | event | to |", "|---|---|---|"]
    for state, moves in machine.table.items():
        mark = " (driven by nobody)" if state in ended and moves else ""
        rows += [f"| {state}{mark} | {event} | {to} |" for event, to in moves.items()]
        if not moves:
            rows.append(f"| {state} | none: final | |")
    return ["\n".join(rows) + "\n", f"```mermaid\n{machine.mermaid()}```\n"]


if __name__ == "__main__":
    sys.stdout.write(document())
