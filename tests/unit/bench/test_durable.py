"""The comparison of durable runtimes: our own cases for real, theirs by name where they are not
installed."""

import json
import os
import subprocess
import sys

import pytest
from bench.durable import __main__ as durable
from bench.durable.kills import Killed, kill
from bench.durable.systems import SQLITE, SYSTEMS, System, steps
from bench.journal_server import server_cpu_s
from bench.peers.installed import NotInstalled

OURS = SYSTEMS[0]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """No test leaves anything in the checkout."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("PROCTOR_BENCH_CACHE", str(folder))
    return folder


def missing(system):
    if system.peer is not None:
        raise NotInstalled(f"{system.title} is not here")
    return sys.executable


def test_our_steps_are_done_and_cost_something():
    costs = steps(OURS, None, "idempotent", (2, 3))
    assert costs.per_s > 0
    assert costs.cpu_ms > 0
    assert costs.server_ms == 0
    assert costs.stored > 1


@pytest.mark.parametrize(
    ("variant", "effects", "told"), [("queryable", 1, False), ("non_repeatable", 1, True)]
)
def test_our_worker_dies_after_the_effect_and_another_recovers(variant, effects, told):
    killed = kill(OURS, None, variant)
    assert (killed.effects, killed.told) == (effects, told)


def test_peers_that_cannot_be_installed_are_left_out_by_name(monkeypatch, capsys):
    monkeypatch.setattr(System, "python", missing)
    assert durable.ready([]) == [OURS]
    said = capsys.readouterr().err
    assert "langgraph 1.2.24 is not here" in said
    assert "dbos 3.4.0 is not here" in said


def test_every_system_has_its_cases_on_its_databases():
    found = list(durable.cases(list(SYSTEMS), {SQLITE: None, "PostgreSQL": "url"}, "effects"))
    titles = [case.title for case in found]
    assert "langgraph 1.2.24, plain, SQLite" in titles
    assert "dbos 3.4.0, plain, PostgreSQL" in titles
    assert not [t for t in titles if "langgraph" in t and "PostgreSQL" in t]


def test_the_promise_is_about_our_effects_only():
    ours = [durable.Case(OURS, SQLITE, variant) for variant in OURS.effects]
    theirs = durable.Case(SYSTEMS[1], SQLITE, "plain")
    told = "waiting: person says whether it happened"
    good = {case: Killed(1, told if case.variant == "non_repeatable" else "done") for case in ours}
    assert durable.kept({**good, theirs: Killed(2, "done")})
    for case in ours:
        second = durable.kept({**good, case: Killed(2, good[case].ended)})
        assert second == (case.variant == "pure")
    assert not durable.kept({**good, ours[3]: Killed(1, "done")})  # it went on without asking
    assert not durable.kept({theirs: Killed(1, "done")})


def test_tables_show_every_case():
    case = durable.Case(OURS, SQLITE, "idempotent")
    other = durable.Case(SYSTEMS[2], SQLITE, "default")
    rated = {
        (case, (1, 3)): [durable.Costs(100, 1, 0, 3), durable.Costs(300, 3, 0, 3)],
        (other, (1, 3)): [durable.Costs(50, 6, 0, 9)],
    }
    lines = durable.rates_table(rated).splitlines()
    assert lines[3].split()[-2:] == ["4.0", "3.0"]  # 200 ÷ 50 and 6 ÷ 2
    shown = durable.kills_table({case: Killed(1, "done")})
    assert "proctor, idempotent, SQLite" in shown
    document = durable.document(rated, {case: Killed(1, "done")})
    assert [entry["steps"] for entry in document["steps"]] == [3, 3]
    assert document["kills"][0]["effects"] == 1


def test_a_server_costs_what_its_processes_cost():
    burn = "import time\nwhile time.process_time() < 0.3: pass\ninput()"
    before = server_cpu_s(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", burn + "\nprint('x')"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.communicate(b"\n")
    assert server_cpu_s(os.getpid()) - before >= 0.2  # counted in ticks, each cut off


@pytest.mark.slow
def test_the_kills_without_peers_end_to_end(tmp_path, monkeypatch, capsys):
    argv = ["durable", "--kills", "--sqlite", "--only", "proctor", "--json", str(tmp_path / "j")]
    monkeypatch.setattr(sys, "argv", argv)
    assert durable.main() == 0
    said = capsys.readouterr().out
    assert "proctor, non_repeatable, SQLite" in said
    assert "langgraph" not in said
    found = json.loads((tmp_path / "j").read_text("utf-8"))
    assert [kill["effects"] for kill in found["kills"]] == [2, 1, 1, 1]
    assert found["steps"] == []
