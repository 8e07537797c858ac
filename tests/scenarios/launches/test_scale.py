"""2,000 tasks in two requests: what grows, grows with the tasks and stays small."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from tests.scenarios.runtime.plugins import Answers, register

import proctor
from proctor.evals.contracts import TaskSpec

TASKS = 1_000


class Many(Answers):
    given = [TaskSpec(f"t{n}", "?", "") for n in range(TASKS)]  # noqa: RUF012


def launch(place):
    request = {"benchmark": register(Many), "harness": "nop"}
    spec = {
        "name": "many",
        "task_concurrency": 64,
        "requests": [{"name": name, **request} for name in ("one", "two")],
        "runtime": {"results_dir": str(place / "results")},
    }
    return asyncio.run(proctor.alaunch(spec))


@pytest.mark.slow
def test_two_thousand_tasks(tmp_path, monkeypatch):
    syncs, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: syncs.append(real(fd)))
    reports = launch(tmp_path)
    assert [r.counts.normal for r in reports] == [TASKS, TASKS]
    done = 2 * TASKS
    assert len(syncs) <= 3 * done + 50  # run.json, result.json and its directory
    files = [path for path in Path(reports[0].run_dir).rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    assert size / TASKS <= 3_000
    assert len(files) <= 3 * TASKS + 10  # task.json, run.json, result.json
    assert not any(path.is_dir() and not any(path.iterdir()) for path in tmp_path.rglob("*"))

    syncs.clear()
    document = next((tmp_path / "results" / "launch" / "many").glob("*.json"))
    cpu = time.process_time()
    again = proctor.resume_launch(document)
    cpu = time.process_time() - cpu
    assert [r.counts.reused_attempts for r in again] == [TASKS, TASKS]
    assert len(syncs) < 50
    assert cpu < 2.0  # 0.2 ms a task on a quiet machine


@pytest.mark.slow
def test_what_is_written_grows_linearly(tmp_path, monkeypatch):
    """Twice the tasks, twice the bytes: nothing is rewritten per attempt."""
    written = {}
    real = os.write

    def counted(fd, data):
        done = real(fd, data)
        written[name] = written.get(name, 0) + done
        return done

    monkeypatch.setattr(os, "write", counted)
    for name, count in (("small", 200), ("large", 400)):
        part = type("Part", (Many,), {"given": Many.given[:count]})
        report = asyncio.run(
            proctor.arun({
                "benchmark": register(part), "harness": "nop",
                "runtime": {"results_dir": str(tmp_path / name), "task_concurrency": 32},
            })
        )  # fmt: skip
        assert report.counts.normal == count
    assert written["large"] < 2.1 * written["small"]
