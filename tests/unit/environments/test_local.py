"""Provider `local`, beyond what the conformance suite asks of every provider."""

import asyncio
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from pydantic import ValidationError

from proctor.environments import copying, hosted
from proctor.environments.contract import EnvironmentSpec, Resources
from proctor.environments.local import LocalEnvironment, LocalOptions
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.environments.owner import MARKER, owner_in_name
from proctor.kernel.errors import EnvironmentFault

pytestmark = pytest.mark.usefixtures("leak_free")
LABELS = {"run": "r1", "attempt": "t/1", "owner": "me"}


def with_session(case, spec=None, options=None, labels=LABELS):
    async def body():
        session = await LocalEnvironment(options).open(spec or EnvironmentSpec(), labels)
        async with session:
            return await case(session)

    return asyncio.run(body())


def own_roots():
    names = os.listdir(tempfile.gettempdir())
    return {n for n in names if (o := owner_in_name(n)) and o[0] == os.getpid()}


def test_an_attempt_that_does_nothing_does_not_touch_the_disk(monkeypatch):
    monkeypatch.setattr(os, "mkdir", lambda *a, **k: pytest.fail("a folder was made"))

    async def case(session):
        assert await session.alive()
        await session.kill_processes()
        assert session.resolve("a/../b") == f"{session.paths.workspace}/b"

    with_session(case)


def test_a_tree_of_very_many_empty_files_is_not_brought_out(tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "MOST_ENTRIES", 5)

    async def case(session):
        await session.exec("mkdir tree && touch tree/1 tree/2 tree/3 tree/4")
        await session.download("tree", tmp_path / "five")
        await session.exec("ln -s 1 tree/5")
        with pytest.raises(EnvironmentFault, match="more than 5 files") as raised:
            await session.download("tree", tmp_path / "six")
        assert raised.value.fault_code == "too_large"
        await session.upload(tmp_path / "five", "back")  # what comes from the host is not bounded
        await session.upload(tmp_path / "six", "again")

    with_session(case)
    assert len(os.listdir(tmp_path / "five")) == 4
    assert len(os.listdir(tmp_path / "six")) <= 4


def test_the_root_is_private_marked_and_gone_afterwards():
    before = own_roots()

    async def case(session):
        await session.exec("true")
        (name,) = own_roots() - before
        root = Path(tempfile.gettempdir(), name)
        assert stat.S_IMODE(os.stat(root).st_mode) == 0o700
        record = json.loads((root / MARKER).read_text())
        assert record["labels"] == LABELS
        assert (record["provider"], record["pid"]) == ("local", os.getpid())
        return root

    assert not with_session(case).exists()
    assert own_roots() == before


def test_home_and_tmp_lie_inside():
    async def case(session):
        root = os.path.dirname(session.paths.workspace)
        result = await session.exec('echo "$HOME $TMPDIR"; touch "$HOME/x" "$TMPDIR/y"; mktemp')
        home, tmp, made = result.stdout.split()
        assert (home, tmp) == (f"{root}/home", f"{root}/tmp")
        assert made.startswith(tmp)

    with_session(case)


def test_problems_say_what_is_needed_instead():
    def problems(**fields):
        return LocalEnvironment().problems(EnvironmentSpec(**fields))

    assert problems() == []
    (absolute,) = problems(absolute_paths=True)
    assert "needs bubblewrap or docker" in absolute
    offline = NetworkPolicy(NetworkMode.NO_NETWORK)
    listed = NetworkPolicy(NetworkMode.ALLOWLIST, ("x.org",))
    phases = NetworkPhases(baseline=listed, run=offline)
    first, second = problems(network=phases)
    assert "baseline network is 'allowlist'" in first
    assert "run network is 'no-network'" in second
    for path in ("/app", "../up", "a/../../b"):
        assert "outside the workspace" in problems(workdir=path)[0]
        assert "outside the workspace" in problems(copies=(("/etc/hosts", path),))[0]
    assert problems(workdir="a/b", copies=(("/etc/hosts", "x/..y/z"),)) == []


def test_images_are_noted_or_refused():
    spec = EnvironmentSpec(image="python:3.12", build=("FROM debian", "RUN apt-get install x"))
    lenient = LocalEnvironment()
    ((code, message),) = lenient.notices(spec)
    assert code == "image_not_built"
    assert all(part in message for part in ("python:3.12", "FROM debian", "RUN apt-get install x"))
    assert lenient.problems(spec) == []
    strict = LocalEnvironment(LocalOptions(strict_image=True))
    assert strict.problems(spec) == [message]
    assert strict.notices(spec) == []
    assert strict.problems(EnvironmentSpec()) == []


def test_wishes_that_cannot_be_enforced_are_noted():
    wishes = Resources(cpus=2, memory_mb=512, storage_mb=10, pids=9, gpus=1)
    ((code, message),) = LocalEnvironment().notices(EnvironmentSpec(resources=wishes))
    assert code == "resource_not_enforced"
    assert "memory" not in message
    assert all(part in message for part in ("cpus=2", "storage_mb=10", "pids=9", "gpus=1"))


def test_memory_of_the_specification_binds_every_command():
    spec = EnvironmentSpec(resources=Resources(memory_mb=150))

    async def case(session):
        return await session.exec("python3 -c 'bytearray(300_000_000)'")

    assert "MemoryError" in with_session(case, spec).stderr


@pytest.mark.parametrize(
    "odd",
    [{"network": "no-network"}, {"strict": True}, {"timeout_ceiling_s": 0},
     {"timeout_ceiling_s": float("nan")}],
)  # fmt: skip
def test_odd_options_are_refused(odd):
    with pytest.raises(ValidationError):
        LocalOptions(**odd)


def test_the_ceiling_binds_what_a_model_chose():
    async def case(session):
        return [await session.exec("sleep 60", timeout_s=t) for t in (-1, None, 9_999)]

    results = with_session(case, options=LocalOptions(timeout_ceiling_s=0.2))
    assert all(r.timed_out for r in results)


def test_another_user_is_refused():
    async def case(session):
        with pytest.raises(EnvironmentFault) as caught:
            await session.exec("id", user="nobody")
        assert (caught.value.fault_code, caught.value.permanent) == ("unsupported", True)

    with_session(case)


def test_a_vanished_root_is_an_environment_fault_at_once():
    async def case(session):
        await session.exec("true")
        shutil.rmtree(os.path.dirname(session.paths.workspace))
        assert not await session.alive()
        for action in (
            session.exec("true"),
            session.read("x"),
            session.write("x", b""),
            session.remove("x"),
            session.upload(Path(__file__), "x"),
            session.download("x", Path("/nowhere")),
        ):
            with pytest.raises(EnvironmentFault) as caught:
                await action
            assert caught.value.fault_code == "environment_gone"
            assert not caught.value.permanent

    with_session(case)


def test_a_place_that_cannot_be_made(monkeypatch):
    monkeypatch.setattr(hosted, "temp_dir", lambda: "/proc/no/such/place")

    async def case(session):
        with pytest.raises(EnvironmentFault, match="cannot make") as caught:
            await session.exec("true")
        assert "TMPDIR" in caught.value.hint

    with_session(case)


def test_a_missing_copy_fails_the_opening_and_leaves_nothing():
    before = own_roots()
    spec = EnvironmentSpec(copies=(("/etc/passwd", "hosts"), ("/no/such/file", "x")))
    with pytest.raises(EnvironmentFault, match="/no/such/file") as caught:
        asyncio.run(LocalEnvironment().open(spec, LABELS))
    assert (caught.value.fault_code, caught.value.permanent) == ("missing_copy", True)
    assert own_roots() == before


def test_a_cancelled_opening_leaves_nothing(tmp_path):
    for number in range(400):
        (tmp_path / str(number)).write_bytes(b"x" * 10_000)
    before = own_roots()
    spec = EnvironmentSpec(copies=((str(tmp_path), "tree"),))

    async def body():
        for turns in range(6):
            task = asyncio.create_task(LocalEnvironment().open(spec, LABELS))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert own_roots() == before

    asyncio.run(body())


def test_closing_stops_a_copy(tmp_path):
    with open(tmp_path / "big", "wb") as stream:
        stream.truncate(3_000_000_000)

    async def body():
        session = await LocalEnvironment().open(EnvironmentSpec(), LABELS)
        copy = asyncio.create_task(session.upload(tmp_path / "big", "big"))
        await asyncio.sleep(0)
        await session.close()
        with pytest.raises(EnvironmentFault) as caught:
            await copy
        assert caught.value.fault_code == "environment_gone"

    before = own_roots()
    asyncio.run(body())
    assert own_roots() == before


def test_daemons_in_their_own_group_end_with_the_session(tmp_path):
    async def case(session):
        script = f"setsid sh -c 'exec 9> {tmp_path}/lock; flock 9; touch {tmp_path}/up; sleep 60' &"
        await session.exec(f"{script} until [ -e {tmp_path}/up ]; do :; done")

    with_session(case)
    assert os.system(f"flock -n {tmp_path}/lock true") == 0


def test_the_driver_hides_its_secrets(monkeypatch):
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DATABASE_URL"):
        monkeypatch.setenv(name, "leak-1234")

    async def case(session):
        # Not even from a child of a child; the driver's own environ is readable by its own user,
        # which is what `isolated = False` says.
        return await session.exec("sh -c env; python3 -c 'import os; print(dict(os.environ))'")

    assert "leak" not in with_session(case).stdout
    assert "no isolation" in LocalEnvironment().cautions()[0]
