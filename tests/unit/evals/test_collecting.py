"""The garbage collector while launches run."""

import gc

import pytest

import proctor
from proctor.evals.collecting import FULL_AFTER, Collecting


@pytest.fixture(autouse=True)
def as_before():
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_full_collections_are_rare_until_the_last_launch_ends():
    gc.set_threshold(500, 9, 8)
    collecting = Collecting()
    collecting.begin()
    assert gc.get_threshold() == (500, 9, FULL_AFTER)
    assert gc.get_freeze_count() > 1000  # what was loaded
    collecting.begin()
    collecting.end()
    assert gc.get_threshold() == (500, 9, FULL_AFTER)
    assert gc.get_freeze_count() > 1000
    collecting.end()
    assert gc.get_threshold() == (500, 9, 8)
    assert gc.get_freeze_count() == 0


def test_what_a_program_froze_itself_stays_frozen():
    gc.freeze()
    frozen = gc.get_freeze_count()
    collecting = Collecting()
    collecting.begin()
    loaded = [[] for _ in range(1000)]
    collecting.keep()
    assert gc.get_freeze_count() <= frozen  # some may have died, none was added
    collecting.end()
    assert frozen * 0.9 < gc.get_freeze_count() <= frozen
    del loaded


def test_a_threshold_that_somebody_sets_meanwhile_stays():
    collecting = Collecting()
    collecting.begin()
    gc.set_threshold(1234, 5, 6)
    collecting.end()
    assert gc.get_threshold() == (1234, 5, 6)


def test_nothing_is_kept_where_no_launch_runs():
    Collecting().keep()
    assert gc.get_freeze_count() == 0


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        collecting = Collecting()
        collecting.begin()
        assert not gc.isenabled()
        collecting.end()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_run_leaves_the_collector_as_it_was(tmp_path):
    before = gc.get_threshold()
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "t1", "input": "q", "target": "a"}\n')
    request = {
        "benchmark": {"id": "table", "data": str(rows)},
        "harness": "oracle",
        "runtime": {"results_dir": str(tmp_path / "results")},
    }
    assert proctor.run(request).status == "completed"
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
