"""Artifacts go to the environment that grades all at once, as they were recorded."""

import asyncio
import os
from pathlib import Path

import pytest

from proctor.environments.hosted import temp_dir
from proctor.environments.local import LocalEnvironment
from proctor.environments.owner import Owner
from proctor.environments.spec import EnvironmentSpec
from proctor.evals.attempt.handover import hand_over
from proctor.evals.results.artifacts import inventory
from proctor.evals.threads import TrackedThreads
from proctor.kernel.errors import EvaluatorFault


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "artifacts"
    for number in range(40):
        path = made / f"folder {number % 3}/deep" / f"file{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 1_000))
    os.chmod(made / "folder 0/deep/file3", 0o750)
    yield made
    owner = Owner.this_process()
    left = [n for n in os.listdir(temp_dir()) if n.startswith(f"proctor-{owner.pid}-")]
    assert left == []


def handed(folder, artifacts=None, before=None, **more):
    """What arrives in a fresh session, and how often something was sent."""
    sent = []

    async def case():
        session = await LocalEnvironment().open(EnvironmentSpec(absolute_paths=False), {})
        async with session:
            plain = session.upload

            async def upload(source, target):
                sent.append(target)
                if before is not None:
                    before()
                await plain(source, target)

            session.upload = upload
            threads = TrackedThreads()
            found = inventory(str(folder)) if artifacts is None else artifacts
            await hand_over(session, str(folder), found, threads, **more)
            place = Path(session.paths.logs, "artifacts")
            return inventory(str(place)), (place / "folder 0/deep/file3").stat().st_mode & 0o777

    return asyncio.run(case()), sent


def test_everything_arrives_as_it_was_recorded_in_one_go(folder):
    recorded = inventory(str(folder))
    (arrived, mode), sent = handed(folder)
    assert arrived == recorded
    assert len(sent) == 1
    assert mode == 0o750


def test_what_changes_after_it_was_checked_does_not_arrive(folder):
    """Between the check of one file and the sending of the last there is time to change it."""
    recorded = inventory(str(folder))

    def change():
        for path in folder.rglob("file*"):
            path.write_bytes(b"better")

    (arrived, _), _ = handed(folder, recorded, change)
    assert arrived == recorded


def shrink(path):
    path.write_bytes(b"")


def grow(path):
    with path.open("ab") as stream:
        stream.write(b"more" * 1_000_000)


def swap(path):
    path.write_bytes(bytes(path.stat().st_size))


def link(path):
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target.name)


def link_above(path):
    elsewhere = path.parent.with_name("elsewhere")
    path.parent.rename(elsewhere)
    path.parent.symlink_to(elsewhere.name)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("change", [Path.unlink, shrink, grow, swap, link, link_above, pipe])
def test_what_is_not_as_recorded_is_told(folder, change):
    recorded = inventory(str(folder))
    change(folder / "folder 1/deep/file4")
    with pytest.raises(EvaluatorFault, match=r"folder 1/deep/file\d+ is not what was") as caught:
        handed(folder, recorded)
    assert caught.value.fault_code == "artifact_changed"


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "folder 1/../../outside", "a//b"])
def test_names_that_lead_elsewhere_are_not_followed(folder, name):
    (folder.parent / "outside").write_bytes(b"")
    (artifact, *_) = inventory(str(folder))
    odd = type(artifact)(name, 0, artifact.sha256)
    with pytest.raises(EvaluatorFault):
        handed(folder, (odd,))


def test_too_much_is_refused_before_anything_is_copied(folder):
    with pytest.raises(EvaluatorFault, match="at most") as caught:
        handed(folder, limit_bytes=100_000)
    assert caught.value.fault_code == "artifacts_too_large"


def test_a_handing_over_that_is_cancelled_leaves_nothing(folder):
    async def case():
        session = await LocalEnvironment().open(EnvironmentSpec(absolute_paths=False), {})
        async with session:
            sending = asyncio.Event()

            async def upload(source, target):
                sending.set()
                await asyncio.Event().wait()

            session.upload = upload
            found = inventory(str(folder))
            handing = asyncio.create_task(hand_over(session, str(folder), found, TrackedThreads()))
            await sending.wait()
            handing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await handing

    asyncio.run(case())
