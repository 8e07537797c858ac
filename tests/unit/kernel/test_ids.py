"""Ids, and the names that are made from them."""

import string
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.kernel.ids import (
    id_problem,
    readable,
    run_id_from_time,
    run_id_problem,
    task_dir_name,
)

SAFE = set(string.ascii_letters + string.digits + "._-")


@pytest.mark.parametrize(
    "value", ["a", "../evil", "/abs", "x" * 400, "é", "e\u0301", "任务-1", "a b", "end.", "a\nb"]
)
def test_almost_everything_is_an_id(value):
    assert id_problem(value) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "must not be empty"),
        ("  ", "must not be empty"),
        (" a", "blanks around it"),
        ("a\n", "blanks around it"),
        ("a\0b", "must not contain NUL"),
        ("\ud800", "valid Unicode"),
        (7, "must be text, found int"),
        (None, "must be text, found NoneType"),
    ],
)
def test_what_is_no_id(value, problem):
    assert problem in id_problem(value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("plain", "plain"),
        ("org/model:v1", "org_model_v1"),
        ("../evil", "evil"),
        ("Stéfan ✓", "Stefan"),
        ("end.", "end"),
        ("...", "_"),
        ("", "_"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("com1", "_com1"),
        ("console", "console"),
        ("x" * 400, "x" * 80),
        ("任务-1", "1"),
        ("½", "1_2"),
    ],
)
def test_readable_names(text, name):
    assert readable(text) == name


@given(st.text())
def test_a_readable_name_is_portable(text):
    name = readable(text)
    assert 1 <= len(name) <= 81
    assert set(name) <= SAFE
    assert name[0] not in ".-"
    assert name[-1] not in "."


@given(st.text(), st.text())
def test_different_ids_never_share_a_directory(one, other):
    """Also where names are folded: by case, by Unicode form."""

    def folded(text):
        return unicodedata.normalize("NFKC", task_dir_name(text)).casefold()

    for text in (one, other):
        if id_problem(text):
            return
    assert (folded(one) == folded(other)) == (one == other)


@given(st.text(min_size=1).filter(lambda text: id_problem(text) is None))
def test_a_directory_name_fits_every_file_system(text):
    name = task_dir_name(text)
    assert len(name.encode()) <= 255
    assert name.rpartition("--")[2].isalnum()
    assert len(name.rpartition("--")[2]) == 64


def test_a_run_id_is_the_time_in_utc():
    moment = datetime(2026, 1, 31, 20, 11, 14, tzinfo=timezone(timedelta(hours=2)))
    assert run_id_from_time(moment) == "20260131-181114"
    assert run_id_problem(run_id_from_time(datetime.now(UTC))) is None


@pytest.mark.parametrize(
    "value", ["", "a/b", "a:b", "-a", "a.", "../x", "é", "x" * 101, "con", " a"]
)
def test_what_is_no_run_id(value):
    assert "not portable" in run_id_problem(value)


@pytest.mark.parametrize("value", ["a", "2026-01-31", "x" * 100, "A.b_c-d"])
def test_run_ids(value):
    assert run_id_problem(value) is None
