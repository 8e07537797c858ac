"""Workers that died one after the other while they drove a run, reckoned from its log.

A claim that finds the run still owned (`RunClaimed.recovered`) says that the owner before it died,
was lost or fell silent. Such claims are counted; the count starts anew with what no later worker
does again: a reply of the policy, a result, an answer, a message, a verdict, the end. The start of
a turn or an attempt is none of these: each worker that dies may have made one. A driver that came
to rest by itself, and a person who resumes the run, start it anew too.
"""

from proctor.agent.core import events as ev

MOST_RETRIES = 3
"""How often a run is tried again after its driver failed, or its worker died."""
HANDED_OVER, GIVEN_UP = "handed over", "given up"
"""Why a run was released, if not because its driver came to rest."""
BY_RUNTIME = "runtime"

_PROGRESS = frozenset((
    ev.TurnReplied, ev.MessageReceived, ev.CancelRequested, ev.CandidateJudged, ev.RunEnded,
))  # fmt: skip


def too_many(deaths: int) -> bool:
    """Whether no worker drives the run any more before a person resumes it."""
    return deaths > MOST_RETRIES


def told(deaths: int) -> str:
    """Why such a run is held back."""
    return f"{deaths} workers in a row died or were lost while they drove it without any progress"


def after(deaths: int, event: ev.AgentEvent) -> int:
    """The count after an event that is no claim. One that is too high stays until somebody resumes
    the run."""
    if isinstance(event, ev.RunMoved) and event.event == "resume":
        return 0
    return deaths if too_many(deaths) or not _is_progress(event) else 0


def _is_progress(event: ev.AgentEvent) -> bool:
    if isinstance(event, ev.AttemptEnded):
        return event.outcome != "lost"
    if isinstance(event, ev.ActionSettled):
        return event.how in ("happened", "did_not_happen", "stated_happened", "stated_not")
    if isinstance(event, ev.WaitClosed):
        return event.how != "superseded"
    if isinstance(event, ev.RunMoved):
        return bool(event.by)
    if isinstance(event, ev.RunReleased):
        return event.reason not in (HANDED_OVER, GIVEN_UP)
    return type(event) in _PROGRESS
