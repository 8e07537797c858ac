"""B41: a budget is reserved before a call, settled after it, and survives a restart."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path

import pytest
from tests.scenarios.launches import meter
from tests.scenarios.launches.meter import Bill, Caller, Meter
from tests.scenarios.launches.process import write_yaml
from tests.scenarios.launches.reusing import register
from tests.scenarios.runtime.runs import Outcome

import proctor
from proctor.evals.results.spending import read_spending
from proctor.models.contract import Usage
from proctor.testing.clock import FakeClock


@pytest.fixture(autouse=True)
def _fresh(adapter):
    adapter(Meter)
    Meter.called.clear()
    Meter.gates.clear()
    Caller.arrived = Caller.together = 0
    Caller.all_there = None
    Caller.before = {}


@pytest.fixture
def bill(monkeypatch):
    """`bill(t1="0.05 0.04", …)`: the tasks and what they cost."""

    def set_costs(**costs: str) -> None:
        lines = [f"{name} {question}" for name, question in costs.items()]
        monkeypatch.setenv("BILL", "\n".join(lines))

    return set_costs


def request(place, budget=None, *, launch_budget=None, concurrency=1, model="meter:m"):
    knobs = {"budget": launch_budget} if launch_budget else {}
    return {
        "benchmark": register(Bill),
        "harness": register(Caller),
        "model": model,
        "execution": {"budget": budget} if budget else {},
        "runtime": {
            "results_dir": str(place / "results"), "task_concurrency": concurrency, **knobs,
        },
    }  # fmt: skip


def run(settings):
    return Outcome(asyncio.run(proctor.arun(settings)))


TEN = {f"t{n}": "0.05 0.04" for n in range(1, 11)}


def test_b41_ten_calls_at_once(tmp_path, bill):
    """Budget 1.00, 0.90 spent by an earlier execution. Two of ten calls are admitted; when they
    are settled, one of 0.02 fits; the others never called the model."""
    bill(t0="0.90 0.90", **TEN)
    stop = proctor.Stop()
    settings = request(tmp_path, {"usd": 1.0})

    async def first():
        running = asyncio.ensure_future(proctor.arun(settings, stop=stop))
        Meter.gates["t1"] = asyncio.Event()
        while "t1" not in Meter.called:  # noqa: ASYNC110
            await asyncio.sleep(0)
        stop.request()
        return await running

    interrupted = asyncio.run(first())
    assert Meter.called == ["t0", "t1"]
    # What t1 had reserved when it was cut off may have been spent; the case begins without it.
    lines = spending(interrupted.run_dir)
    assert [line.get("reserved", line.get("settled")) for line in lines] == [1, 1, 2, 2]
    path = Path(interrupted.run_dir) / "budget.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines[:2]), "utf-8")
    assert read_spending(interrupted.run_dir)[0].usd == Decimal("0.90")
    Meter.called.clear()

    bill(t0="0.90 0.90", **TEN, late="0.02 0.02")

    async def second():
        Caller.together, Caller.all_there = 10, asyncio.Event()
        Meter.gates = {name: asyncio.Event() for name in TEN}
        Caller.before = {"late": asyncio.Event()}
        resumed = proctor.aresume(interrupted.run_dir, changes={"task_concurrency": 10})
        running = asyncio.ensure_future(resumed)
        refused = 0
        while refused < 8 or len(Meter.called) < 2:
            await asyncio.sleep(0)
            refused = events(interrupted.run_dir).count("run_error")
        admitted = list(Meter.called)
        for gate in Meter.gates.values():
            gate.set()
        while events(interrupted.run_dir).count("completed") < 3:  # noqa: ASYNC110 - t0, two more
            await asyncio.sleep(0)
        Caller.before["late"].set()
        return admitted, await running

    admitted, report = asyncio.run(second())
    assert len(admitted) == 2
    assert Meter.called[:2] == admitted
    outcome = Outcome(report)
    for name in TEN:
        record = outcome.record(name)
        if name in admitted:
            assert record["metrics"] == {"right": True}
            assert record["usage"]["cost_usd"] == "0.04"
            continue
        assert record["metrics"] == {}
        [issue] = record["issues"]
        assert (issue["cause"], issue["code"]) == ("budget", "budget_exhausted")
        assert (issue["severity"], record["usage"]["requests"]) == ("error", 0)
    assert outcome.record("late")["metrics"] == {"right": True}
    assert Meter.called == [*admitted, "late"]
    assert read_spending(report.run_dir)[0].usd == Decimal("1.00")
    assert report.counts.normal == 4
    assert report.metrics.series["right"]["avg@1"].evaluated == 4


def spending(run_dir):
    text = (Path(run_dir) / "budget.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def events(run_dir):
    lines = (Path(run_dir) / "logs" / "run.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line).get("status") for line in lines if '"attempt.finished"' in line]


def test_b41_a_call_with_an_unknown_outcome_counts_whole(tmp_path, bill):
    bill(t1="0.05 unknown", t2="0.05 refused", t3="0.05 silent", t4="0.05 0.01")
    outcome = run(request(tmp_path, {"usd": 1.0}))
    settled = [line["usd"] for line in spending(outcome.run_dir) if "settled" in line]
    assert settled == ["0.05", "0", "0.05", "0.01"]
    assert read_spending(str(outcome.run_dir))[0].usd == Decimal("0.11")


def test_b41_a_dearer_call_overshoots_once_and_is_logged(tmp_path, bill):
    """0.90 spent, 0.05 reserved, 0.07 paid: the limit of 0.95 is passed by 0.02 and no more."""
    bill(t1="0.90 0.90", t2="0.05 0.07", t3="0.01 0.01")
    outcome = run(request(tmp_path, {"usd": 0.95}))
    spent = read_spending(str(outcome.run_dir))[0].usd
    assert spent == Decimal("0.97")
    [over] = [line["over"] for line in spending(outcome.run_dir) if "over" in line]
    assert over == {"usd": "0.02", "tokens": 20}
    assert Meter.called == ["t1", "t2"]


def test_a_spent_budget_stops_the_run(tmp_path, bill):
    """A hard stop: nothing new starts, the state says why, and nothing is scored 0."""
    bill(t1="0.05 0.05", t2="0.06 0.06", t3="0.05 0.05", t4="0.05 0.05")
    outcome = run(request(tmp_path, {"usd": 0.10}))
    report = outcome.report
    assert (report.status, report.exit_code) == ("failed", 3)
    assert report.error == "budget 'run' is spent: $0.05 and 50 tokens"
    info = proctor.load(outcome.run_dir).info
    assert (info["status"], info["error"]) == ("failed", report.error)
    assert sorted(outcome.records) == [("t1", 1), ("t2", 1)]
    assert report.counts.to_json() == {
        "tasks": 4, "normal": 1, "error": 1, "fatal": 0, "interrupted": 0, "attempts": 2,
        "reused_attempts": 0,
    }  # fmt: skip
    series = report.metrics.series["right"]["avg@1"]
    assert (series.evaluated, series.unavailable, series.total) == (1, 3, 4)
    assert Meter.called == ["t1"]


def test_a_run_that_ran_out_can_go_on_with_another_budget(tmp_path, bill):
    bill(t1="0.05 0.05", t2="0.06 0.06", t3="0.05 0.05")
    first = run(request(tmp_path, {"usd": 0.10}))
    more = request(tmp_path, {"usd": 0.50})
    again = proctor.run(more, earlier=proctor.Earlier(str(first.run_dir)))
    assert (again.status, again.counts.normal, again.counts.reused_attempts) == ("completed", 3, 1)
    assert Meter.called == ["t1", "t2", "t3"]


def test_tokens_are_a_budget_too(tmp_path, bill):
    bill(t1="0.05 0.05", t2="0.05 0.02", t3="0.05 0.05")
    outcome = run(request(tmp_path, {"tokens": 100}))
    assert read_spending(str(outcome.run_dir))[0].tokens == 70
    assert "30 tokens" not in str(outcome.report.error)
    assert Meter.called == ["t1", "t2"]
    assert outcome.record("t3")["issues"][0]["message"] == (
        "budget 'run': 70 tokens spent and 0 reserved of 100; 50 more do not fit"
    )


@pytest.mark.slow
def test_b41_a_kill_between_reservation_and_settlement_counts_the_reservation(
    tmp_path, bill, events, start, monkeypatch
):
    bill(t1="0.04 0.04", t2="0.05 0.01", t3="0.05 0.01")
    monkeypatch.setenv("PYTHONPATH", str(plugin(tmp_path)))
    settings = request(tmp_path, {"usd": 0.10})
    settings["benchmark"] = f"{meter.__file__}:Bill"
    settings["harness"] = f"{meter.__file__}:Caller"
    file = write_yaml(tmp_path / "request.yaml", settings)
    process = start("run", file, events=events, hold="call t2")
    assert [events.next(), events.next()] == ["call t1", "call t2"]
    process.kill()
    [run_dir] = (tmp_path / "results").glob("*/*/*/*")
    assert read_spending(str(run_dir))[0].usd == Decimal("0.09")
    assert "settled" not in spending(run_dir)[-1]
    ended = start("resume", str(run_dir), "--json").end()
    assert ended.code == 3
    [report] = ended.document["runs"]
    assert (report["status"], report["counts"]["normal"]) == ("failed", 1)
    assert "is spent" in report["error"]
    assert not list(events.rest())  # no further call fits: 0.09 + 0.05 > 0.10


def plugin(place):
    """A distribution that registers the meter, as pip would install it."""
    folder = place / "site"
    info = folder / "meter_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: meter-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[proctor.models]\nmeter = meter:Meter\n")
    (folder / "meter.py").write_text(Path(meter.__file__).read_text("utf-8"), "utf-8")
    return folder


# --- the launch's budget


def launch(place, budgets, requests, **runtime):
    spec = {
        "name": "night",
        "task_concurrency": 1,
        "requests": [
            {"name": name, "benchmark": register(Bill), "harness": register(Caller),
             "model": "meter:m", "execution": {"budget": budgets[name]} if name in budgets else {}}
            for name in requests
        ],
        "runtime": {"results_dir": str(place / "results"), **runtime},
    }  # fmt: skip
    return asyncio.run(proctor.alaunch(spec))


THREE = {f"t{n}": "0.05 0.04" for n in (1, 2, 3)}


def test_requests_share_the_launchs_budget(tmp_path, bill):
    """0.12 of 0.20 are spent by A; B's second call would make 0.21, and its third is not tried."""
    bill(**THREE)
    reports = launch(tmp_path, {}, ["a", "b"], budget={"usd": 0.20})
    assert [r.status for r in reports] == ["completed", "failed"]
    assert [r.counts.normal for r in reports] == [3, 1]
    assert [r.exit_code for r in reports] == [0, 3]
    assert "budget 'launch': $0.16 spent" in Outcome(reports[1]).record("t2")["error"]
    assert reports[1].error == "budget 'launch' is spent: $0.16 and 160 tokens"
    assert ("t3", 1) not in Outcome(reports[1]).records
    spent = [read_spending(r.run_dir)[0].usd for r in reports]
    assert spent == [Decimal("0.12"), Decimal("0.04")]


def test_a_request_that_is_refused_its_last_call_has_finished(tmp_path, bill):
    """Nothing was left to be stopped: it is complete, with a task that was not evaluated."""
    bill(t1="0.05 0.04", t2="0.05 0.04")
    outcome = run(request(tmp_path, {"usd": 0.08}))
    assert (outcome.report.status, outcome.report.exit_code) == ("completed", 1)
    assert outcome.report.issue_codes == {"budget_exhausted": 1}


def test_a_request_has_its_own_budget_within_the_launchs(tmp_path, bill):
    bill(**THREE)
    reports = launch(tmp_path, {"a": {"usd": 0.08}}, ["a", "b"], budget={"usd": 1.0})
    assert [r.counts.normal for r in reports] == [1, 3]
    assert reports[0].error == "budget 'run' is spent: $0.04 and 40 tokens"


def test_a_resumed_launch_knows_what_all_its_requests_spent(tmp_path, bill):
    bill(**THREE)
    reports = launch(tmp_path, {}, ["a", "b"], budget={"usd": 0.20})
    Meter.called.clear()
    [document] = (tmp_path / "results" / "launch" / "night").glob("*.json")
    again = proctor.resume_launch(document)
    assert [r.status for r in again] == ["completed", "failed"]
    assert Meter.called == []
    alone = proctor.resume(reports[1].run_dir)  # and so does one of them alone
    assert (alone.status, Meter.called) == ("failed", [])
    assert "budget 'launch' is spent: $0.16" in str(alone.error)
    more = proctor.resume_launch(document, changes={"budget": {"usd": 1.0}})
    assert [r.counts.normal for r in more] == [3, 3]
    assert Meter.called == ["t2", "t3"]


def test_a_single_run_keeps_the_launchs_budget_too(tmp_path, bill):
    bill(**THREE)
    outcome = run(request(tmp_path, launch_budget={"usd": 0.05}))
    assert (outcome.report.status, Meter.called) == ("failed", ["t1"])


@pytest.mark.parametrize("name", ["run", "launch"])
def test_wall_time_is_a_budget_of_run_and_launch(tmp_path, bill, name):
    """Nothing new starts once it has passed; what runs may end."""
    bill(**THREE)
    limit = {"wall_s": 60.0}
    settings = request(tmp_path, limit) if name == "run" else request(tmp_path, launch_budget=limit)
    clock = FakeClock()

    async def late():
        Meter.gates = {"t1": asyncio.Event()}
        running = asyncio.ensure_future(proctor.arun(settings, clock=clock))
        while not Meter.called:  # noqa: ASYNC110
            await asyncio.sleep(0)
        clock.advance(61.0)
        Meter.gates["t1"].set()
        return await running

    report = asyncio.run(late())
    assert (report.status, report.counts.normal, Meter.called) == ("failed", 1, ["t1"])
    assert report.error == f"budget {name!r}: 60 s of wall time are spent"


# --- refusals


class Unbounded(Meter):
    id = "unbounded"

    def worst_case(self, messages, parameters):
        return None


class Unpriced(Meter):
    id = "unpriced"

    def worst_case(self, messages, parameters):
        return Usage(10, 10)


@pytest.mark.parametrize("where", ["run", "launch"])
def test_a_budget_that_cannot_be_kept_is_refused(tmp_path, bill, adapter, where):
    bill(t1="0.05 0.04")
    adapter(Unbounded)
    adapter(Unpriced)

    def refused(model, budget):
        settings = request(tmp_path, model=model)
        place = settings["execution"] if where == "run" else settings["runtime"]
        place["budget"] = budget
        with pytest.raises(proctor.UsageError) as error:
            proctor.run(settings)
        assert not (tmp_path / "results").exists()
        return error.value

    tokens = refused("unbounded:m", {"tokens": 100})
    assert "a budget needs a bound on every call" in tokens.message
    assert "-p model.max_tokens" in tokens.hint
    assert "needs the prices" in refused("unpriced:m", {"usd": 1.0}).message


def test_the_adapters_for_endpoints_can_be_budgeted_with_a_longest_answer_and_prices(
    tmp_path, bill, monkeypatch
):
    bill(t1="0.05 0.04")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-nobody")
    model = {"id": "openai:m", "base_url": "http://127.0.0.1:9"}
    for options, problem in (
        ({}, "a budget needs a bound on every call, and model 'm' gives none"),
        ({"max_tokens": 10}, "a budget in US dollars needs the prices of model 'm'"),
    ):
        with pytest.raises(proctor.UsageError) as error:
            proctor.run(request(tmp_path, {"usd": 1.0}, model={**model, **options}))
        assert error.value.message == problem


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"usd": -1}, "budget.usd"),
        ({"usd": 0}, "budget.usd"),
        ({"usd": "much"}, "budget.usd"),
        ({"usd": float("nan")}, "budget.usd"),
        ({"tokens": 1.5}, "budget.tokens"),
        ({"tokens": True}, "budget.tokens"),
        ({"wall_s": -1}, "budget.wall_s"),
        ({"dollars": 1}, "unknown key"),
    ],
)
def test_a_budget_that_is_none_is_refused(tmp_path, bill, budget, message):
    bill(t1="0.05 0.04")
    with pytest.raises(proctor.OptionError, match=message):
        proctor.run(request(tmp_path, budget))


def test_a_model_without_any_bound_is_never_called_under_a_launchs_budget(tmp_path, bill, adapter):
    """Preflight asks about an empty call; a call that cannot be bounded is refused when made."""

    class Sometimes(Meter):
        id = "sometimes"

        def worst_case(self, messages, parameters):
            return None if messages else Usage(1, 1, cost_usd=Decimal("0.01"))

    adapter(Sometimes)
    bill(t1="0.05 0.04")
    outcome = run(request(tmp_path, {"usd": 1.0}, model="sometimes:m"))
    assert Meter.called == []
    assert "cannot bound what a call costs" in outcome.record("t1")["error"]
