"""The life of an action and of an agent run, as data.

Three places agree on these tables: this module, the CHECK constraints of the journal's tables and
the diagrams of the documentation. A pair of state and event that is not listed is refused.
"""

from proctor.kernel.states import Machine

ACTION = Machine(
    "action",
    "ready",
    {
        "ready": {
            "condition_missing": "waiting",
            "denied": "failed",
            "expired": "failed",
            "started": "running",
            "invalid": "failed",
            "cancelled": "cancelled",
            "given_up": "unknown",
        },
        "waiting": {
            "arrived": "ready",
            "denied": "failed",
            "expired": "failed",
            "cancelled": "cancelled",
            "given_up": "unknown",
        },
        "running": {
            "result": "verifying",
            "rejected": "failed",
            "refused": "failed",
            "stopped_without_effect": "cancelled",
            "lost": "unknown",
        },
        "unknown": {
            "happened": "verifying",
            "did_not_happen": "ready",
            "repeatable": "ready",
            "cannot_be_settled": "stopped",
        },
        "stopped": {"stated_happened": "verifying", "stated_not": "ready"},
        "verifying": {"accepted": "done", "correct": "ready", "not_accepted": "failed"},
        "done": {},
        "failed": {},
        "cancelled": {},
    },
)
"""One action. Created in `ready` by `action.accepted`.

`refused` is a failure before anything was sent, `rejected` an explicit no of the other side,
`lost` a reply that will not come: a broken connection, a time-out without a confirmed stop, a
worker that is gone. `repeatable`: the outcome is
not known, and doing it again has no second effect (pure, or idempotent by its key). `given_up`: it
will not be done again, and what it did before is not known: an attempt without a known outcome, or
a subtask that still goes on.
"""

RUN = Machine(
    "run",
    "ready",
    {
        "ready": {"started": "running", "suspend": "suspended", "close": "finishing"},
        "running": {
            "block": "waiting",
            "candidate": "verifying",
            "suspend": "suspended",
            "close": "finishing",
        },
        "waiting": {"unblock": "running", "suspend": "suspended", "close": "finishing"},
        "verifying": {
            "correct": "running",
            "block": "waiting",
            "suspend": "suspended",
            "close": "finishing",
        },
        "finishing": {
            "end_done": "done",
            "end_failed": "failed",
            "end_stopped": "stopped",
            "end_cancelled": "cancelled",
        },
        "suspended": {"resume": "ready", "close": "finishing"},
        "stopped": {"resume": "ready", "close": "finishing"},
        "done": {},
        "failed": {},
        "cancelled": {},
    },
)
"""One agent run. `close` says how it is to end; it ends when nothing is left to clean up.

`stopped` is not final: a person may state what happened and resume.
"""

ACTION_STATES = tuple(ACTION.table)
RUN_STATES = tuple(RUN.table)
SETTLED_ACTION_STATES = frozenset(s for s in ACTION_STATES if ACTION.is_final(s))
OVER_RUN_STATES = tuple(s for s in RUN_STATES if RUN.is_final(s))
"""Where nothing moves a run any more, and nobody reads what is said to it."""
ENDED_RUN_STATES = frozenset(OVER_RUN_STATES) | {"stopped"}
"""Where a run is not driven any further by itself."""
