"""Judging a candidate while the run is still listened to: a cancel or a message need not wait until
a check has ended."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from proctor.agent.core import commands as cmd
from proctor.agent.core.view import View
from proctor.agent.driving.desk import Desk
from proctor.agent.driving.intake import look_again, revision_of
from proctor.agent.verify import Check, checks_of, judge, review, review_subject
from proctor.kernel.faults import fault_point

Verdict = Mapping[str, Any]


class Judged(Struct, frozen=True, gc=False):
    """What the checks said, by their places; those of people are not among them. `manifest`: the
    files afterwards, when a command ran that may have written some."""

    verdicts: Mapping[int, Verdict]
    manifest: dict[str, str] | None = None


async def verify(desk: Desk) -> bool:
    """One step of judging the candidate; whether anything was done."""
    if desk.view.waiting("workspace"):  # not judged on files that nobody vouches for
        desk.recorder.must(cmd.Move("block", "the workspace is not as it was left"))
        return True
    checks = checks_of(desk.view)
    if desk.judging is None:  # results are durable before anybody judges by them
        await desk.recorder.flush()
    if (desk.judged or not checks) and await look_again(desk):
        return True
    if not checks:
        _judge(desk, ())
        return True
    if desk.judged:
        desk.judging = None
        found = desk.judged.popleft()
        if isinstance(found, Exception):  # the machine could not check: that judges nobody
            raise found
        _conclude(desk, checks, found)
        return True
    if desk.judging is None:
        desk.judging = desk.spawn(_check_all(desk, checks, desk.view))
        return True
    return False


def no_more(desk: Desk) -> None:
    """The candidate is not judged any more: what checks it stops."""
    if desk.judging is not None:
        desk.judging.cancel()
        desk.judging = None
    desk.judged.clear()


async def _check_all(desk: Desk, checks: tuple[Check, ...], view: View) -> None:
    root = getattr(desk.setup.workspace, "root", None)
    folder = None if root is None else Path(root)
    try:
        kept = await _kept(desk, view)
        found: dict[int, Verdict] = {}
        ran = False
        for place, check in enumerate(checks):
            if check.get("kind") == "reviewer":
                continue
            known = kept.get(str(place)) if check.get("kind") == "command" else None
            if known is None:
                ran = ran or check.get("kind") == "command"
                known = await judge(view, check, folder)
            assert known is not None
            found[place] = known
        manifest = await _files(desk) if ran else None
        desk.judged.append(Judged(found, manifest))
    except Exception as error:  # noqa: BLE001 - raised by the driver, which waits for it
        desk.judged.append(error)
    finally:
        desk.wake()


async def _kept(desk: Desk, view: View) -> Mapping[str, Verdict]:
    """What the commands said before a person was asked about exactly these files. A command that
    writes would else make other files of them each time it is asked."""
    subject = review_subject(view)
    asked = [w for w in view.waits if w.kind == "review" and w.subject == subject]
    if not asked or not view.revision or desk.setup.workspace is None:
        return {}
    now = await _files(desk)
    if now is None or revision_of(now) != view.revision:
        return {}
    kept: Mapping[str, Verdict] = asked[-1].spec.get("kept", {})
    return kept


async def _files(desk: Desk) -> dict[str, str] | None:
    if desk.setup.workspace is None:
        return None
    try:
        return dict(await desk.setup.workspace.manifest())
    except (OSError, ValueError):  # the next look, which has to say so, finds out
        return None


def _conclude(desk: Desk, checks: tuple[Check, ...], judged: Judged) -> None:
    """Take up what the checks said; a person is asked where one is to decide."""
    if judged.manifest is not None:
        desk.manifest = judged.manifest
        desk.recorder.must(cmd.Revise(revision_of(judged.manifest)))
    verdicts = []
    for place, check in enumerate(checks):
        found = judged.verdicts.get(place)
        if found is None:
            found = review(desk.view, check)
        if found is None:
            _ask(desk, check, judged)
            return
        verdicts.append(found)
    _judge(desk, tuple(verdicts))


def _ask(desk: Desk, check: Check, judged: Judged) -> None:
    prompt = f"Is this result accepted?\n{desk.view.candidate}"
    kept = {str(place): verdict for place, verdict in judged.verdicts.items()}
    spec = {"check": dict(check), "kept": kept}
    subject = review_subject(desk.view)
    desk.recorder.must(cmd.OpenWait("review", None, subject, prompt, spec=spec))
    desk.recorder.must(cmd.Move("block", "a reviewer decides"))


def _judge(desk: Desk, verdicts: tuple[Verdict, ...]) -> None:
    fault_point("agent.judged")
    desk.recorder.must(cmd.Judge(verdicts))
