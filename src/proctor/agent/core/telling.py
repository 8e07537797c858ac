"""What a subtask tells its parent when it ends, and what makes that believable.

Anybody may put a message into the parent's inbox. The end of a subtask is in its own log, which
only its owner writes, and holds the digest of what it tells: a message counts if the log says so.
"""

from typing import Any

from proctor.agent.core.view import View
from proctor.kernel import jsontext
from proctor.kernel.digest import of_json


def report(view: View, state: str) -> dict[str, Any]:
    """What a subtask that is about to end as `state` tells its parent."""
    parent = view.parent or {}
    spent = view.budgets.spent + view.budgets.reserved
    found: dict[str, Any] = jsontext.sanitized(
        {
            "wait": parent.get("wait"),
            "state": state,
            "result": view.candidate if state == "done" else view.aim_reason,
            "spent": spent.to_json(),
        }
    )
    return found


def seal(told: Any) -> str:
    """What the end in a subtask's log says of its report. Raises KeyError without a part of it."""
    return of_json({name: told[name] for name in ("wait", "state", "result", "spent")})
