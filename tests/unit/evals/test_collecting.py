"""The garbage collector while launches run."""

import gc

import pytest

import proctor
from proctor.evals.collecting import FULL_AFTER, Collecting


@pytest.fixture(autouse=True)
def as_before():
    before = gc.get_threshold()
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
