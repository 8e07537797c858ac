"""The no-op work itself: few tasks, and the promises that do not depend on the machine."""

import sys

import pytest
from bench import noop
from bench.measured import run
from bench.noop_figures import Case, Figures, Sample
from bench.noop_report import promises, text, to_json
from bench.peers import installed, report
from bench.peers.comparison import Comparison, Side
from bench.peers.installed import PEERS, NotInstalled, Peer

# The same promise is tested without it too, so that its absence leaves nothing unproved.
needs_strace = pytest.mark.skipif(
    noop.strace() is None, reason="strace is not installed or not allowed"
)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """No test leaves anything in the checkout."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PROCTOR_BENCH_CACHE", str(folder))
    return folder


@pytest.mark.parametrize(("mode", "files"), [("reuse", 2), ("none", 3), ("model", 3)])
def test_a_trivial_task_leaves_two_or_three_small_files(mode, files):
    """Bytes and files grow with the tasks and nothing else does."""
    few, many = (noop.once(Case(mode, tasks, 8))[0].left for tasks in (10, 30))
    assert (many.files - few.files) / 20 == files
    assert (many.folders - few.folders) / 20 == 2
    assert (many.size_bytes - few.size_bytes) / 20 <= 3_072


@needs_strace
def test_a_record_costs_two_syncs_and_a_run_record_one_more(monkeypatch):
    monkeypatch.setattr(noop, "SYNC_TASKS", (10, 30))
    assert noop.count_syncs("reuse")[0] == 2
    assert noop.count_syncs("none")[0] == 3


def test_syncs_are_counted_alike_with_and_without_strace(monkeypatch):
    monkeypatch.setattr(noop, "strace", lambda: None)
    monkeypatch.setattr(noop, "SYNC_TASKS", (10, 30))
    assert noop.count_syncs("reuse") == (2, "os.fsync wrapped in the process")


def test_the_loop_is_watched_over_the_whole_run():
    sample, _ = noop.once(Case("reuse", 50, 16), "--loop")
    own = sample.ended.own
    assert own["callbacks"]["callbacks"] > 50
    assert own["callbacks"]["longest_ms"] > 0
    assert own["lag_ms"]["p50"] <= own["lag_ms"]["p99.9"] <= own["lag_ms"]["max"]


def test_a_bare_record_is_what_it_says(tmp_path):
    ended = run([sys.executable, "-m", "bench.bare_case", "5", "{report}"], tmp_path)
    assert ended.own["records"] == 5
    assert sorted(p.name for p in (tmp_path / "normal").rglob("*.json")) == [
        *["result.json"] * 5,
        *["task.json"] * 5,
    ]
    assert not list((tmp_path / "running").iterdir())


def measured_once() -> Figures:
    figures = Figures(bare=[noop.bare(3)], syncs={"reuse": 2.0}, counted_by="hand")
    for tasks in (20, 40):
        case = Case("reuse", tasks, 16)
        figures.samples[case].append(noop.once(case)[0])
        figures.loops[case].append(noop.once(case, "--loop")[0].ended.own)
    return figures


def test_tables_and_documents_show_every_case():
    figures = measured_once()
    shown = text(figures)
    assert "reuse 20 × 16" in shown
    assert "reuse 40 × 16" in shown
    assert "counted by hand" in shown
    document = to_json(figures)
    assert [case["tasks"] for case in document["cases"]] == [20, 40]
    named = {limit.what: limit for limit in promises(figures)}
    assert named["reuse: syncs a task"].kept
    assert named["reuse: bytes of files a task"].kept
    assert named["reuse 40 × 16: lag p99.9"].limit == 20.0


def with_cpu(sample: Sample, cpu_s: float) -> tuple:
    ended = type(sample.ended)(1.0, cpu_s, 0.0, sample.ended.own)
    return ended, sample.left


def test_the_best_peer_is_the_one_that_is_nearest_to_us():
    sample = noop.once(Case("reuse", 10, 4))[0]
    ours, slow, quick = Side("proctor, reuse"), Side("slow 1"), Side("quick 2")
    for tasks, own, theirs, theirs_too in ((10, 0.5, 5.0, 1.0), (20, 0.6, 60.0, 1.4)):
        ours.runs[tasks].append(with_cpu(sample, own))
        slow.runs[tasks].append(with_cpu(sample, theirs))
        quick.runs[tasks].append(with_cpu(sample, theirs_too))
    found = Comparison(ours={"reuse": ours})
    for side in (slow, quick):
        found.theirs[side.name] = (Peer("x", "1", "x"), side)
    (limit,) = report.promises(found)
    assert "quick 2" in limit.what
    assert limit.value == pytest.approx(1.4 / 0.6)  # of all: less than 4 for each further task
    assert not limit.kept
    assert report.ratios(ours, quick)["CPU further"] == pytest.approx(4.0)
    assert "quick 2 ÷ proctor, reuse" in report.text(found)


def test_a_peer_without_its_interpreter_is_named_with_the_reason():
    with pytest.raises(NotInstalled, match=r"x 1 needs Python >= 3\.99"):
        installed.interpreter(Peer("x", "1", "x", python=(3, 99)))


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_is_named_with_the_reason(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(NotInstalled, match=r"^no-such-package-anywhere 1 cannot be installed: "):
        installed.interpreter(Peer("no-such-package-anywhere", "1", "x"))


def test_the_peers_are_pinned_to_the_versions_of_the_targets():
    assert {(p.name, p.version) for p in PEERS} == {
        ("inspect-ai", "0.3.285"),
        ("agentcompass", "1.0.1"),
        ("harbor", "0.25.0"),
    }
