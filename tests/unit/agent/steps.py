"""A run brought into a situation by commands, for tests of the pure core."""

from proctor.agent.core import commands as cmd
from proctor.agent.core.decide import decide
from proctor.agent.core.evolve import fold
from proctor.agent.core.locks import EVERYTHING
from proctor.agent.core.view import View


class Run:
    """Applies commands; `do` fails the test on a refusal, `refusal` on an acceptance."""

    def __init__(self, **settings) -> None:
        self.now = 1_000
        self.view = View()
        self.log: list = []
        self.do(cmd.CreateRun("run1", {"goal": "g"}, "digest", **settings))
        self.do(cmd.Claim("me", 1))

    def do(self, command):
        events = decide(self.view, command, self.now)
        assert not isinstance(events, cmd.Refusal), events
        self.log += events
        self.view = fold(self.view, events, self.now)
        return [type(e).__name__ for e in events]

    def refusal(self, command):
        found = decide(self.view, command, self.now)
        assert isinstance(found, cmd.Refusal), found
        return found.code

    def turn(self, *calls, text=""):
        """A turn with these calls; returns nothing: actions are numbered a1, a2, …"""
        self.do(cmd.RequestTurn())
        self.do(cmd.Reply(len(self.view.turns), text, calls))

    def start(self, action="a1", **more):
        return self.do(cmd.StartAttempt(action, self.view.fence, **more))

    def end(self, outcome="result", action="a1", **more):
        a = self.view.action(action)
        return self.do(cmd.EndAttempt(action, a.attempts, a.fence, outcome, **more))

    def state(self, action="a1"):
        return self.view.action(action).state


def call(call_id="c1", tool="tool", effect="non_repeatable", resources=EVERYTHING, **more):
    more.setdefault("arguments", {"x": 1})
    more.setdefault("max_attempts", 3)
    return cmd.ProposedCall(call_id, tool, effect=effect, resources=resources, **more)


def in_state(state: str) -> Run:
    """A run whose action a1 is in this state."""
    run = Run()
    run.turn(call(effect="queryable"))
    if state == "ready":
        return run
    if state == "waiting":
        run.do(cmd.OpenWait("input", "a1"))
        return run
    if state == "failed":
        run.do(cmd.CloseAction("a1", "denied", "no"))
        return run
    if state == "cancelled":
        run.do(cmd.CloseAction("a1", "cancelled", "no"))
        return run
    run.start()
    if state == "done":
        run.end()
    if state in ("unknown", "stopped"):
        run.end("lost")
    if state == "stopped":
        run.do(cmd.Settle("a1", "cannot_be_settled", "query"))
    return run
