"""GSM8K as a whole against an endpoint that answers, errs and fails by a rule file.

The command and the endpoint are processes of their own. What must come out is counted from the
rules, and what was sent is counted by the endpoint.
"""

import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command import Done, environment, proctor, runs_in

RETRIES = 2
ALWAYS = RETRIES + 1

# What goes wrong before the answer: how often, and with what.
FAULTS: dict[str, tuple[int, Any]] = {
    "429 once": (1, {"status": 429, "retry_after": "1"}),
    "500 once": (1, 500),
    "500 twice": (2, 500),
    "reset once": (1, "reset"),
    "broken JSON once": (1, "malformed"),
    "no choices once": (1, "empty_choices"),
    "broken JSON always": (ALWAYS, "malformed"),
    "HTML always": (ALWAYS, "html"),
    "500 always": (ALWAYS, 500),
    "400": (1, 400),  # permanent: sent once, and the attempt is over
}
ENDS = ("broken JSON always", "HTML always", "500 always", "400")
EVERY = dict(zip((131, 61, 67, 71, 73, 79, 83, 89, 97, 101), FAULTS, strict=True))

ANSWERS = {
    "right": "Step by step.\n#### {right}",
    "right in dollars": "So it costs ${right:,}.00",
    "wrong": "It is not {right}, it is\n#### {wrong}",
    "empty": "",
    "blank": " \n",
    "no number": "I do not know.",
    "not a number": "#### forty-two",
}
KINDS = ("right", "wrong", "right in dollars", "empty", "right", "no number", "right", "blank",
         "right", "not a number", "right")  # fmt: skip
UNPARSED = ("empty", "blank", "no number", "not a number")


def fault_of(line: int) -> str | None:
    return next((name for every, name in EVERY.items() if line % every == 0), None)


def kind_of(line: int) -> str:
    return KINDS[line % len(KINDS)]


def rules(data: Path) -> dict[str, Any]:
    """A rule for the answer of every row, before it one for its faults."""
    found = []
    for line, text in enumerate(data.read_text("utf-8").splitlines(), 1):
        right = int(json.loads(text)["answer"].rpartition("####")[2].strip().replace(",", ""))
        answer = ANSWERS[kind_of(line)].format(right=right, wrong=right + 1)
        when = {"task": str(line)}
        if fault := fault_of(line):
            times, reply = FAULTS[fault]
            name = f"{line} {fault}"
            found.append({"name": name, "when": when, "times": times, "reply": {"fault": reply}})
        found.append({"name": f"{line} answer", "when": when, "reply": {"text": answer}})
    return {"version": 1, "rules": found}


def expected_uses(lines: range) -> Counter[str]:
    """How often each rule must be used: the requests that the run must make, and no other."""
    uses: Counter[str] = Counter()
    for line in lines:
        fault = fault_of(line)
        if fault:
            uses[f"{line} {fault}"] = FAULTS[fault][0]
        if fault not in ENDS:
            uses[f"{line} answer"] = 1
    return uses


def expected_statuses(uses: Counter[str]) -> Counter[str]:
    """The statuses that these uses send; 0 is a connection that was reset."""
    statuses: Counter[str] = Counter()
    for rule, number in uses.items():
        fault = FAULTS.get(rule.partition(" ")[2], (0, "answer"))[1]
        status = fault["status"] if isinstance(fault, dict) else fault
        if isinstance(status, str):
            status = 0 if status == "reset" else 200
        statuses[str(status)] += number
    return statuses


@contextmanager
def served(file: Path) -> Iterator[str]:
    """The scripted server as a process; gives its base URL."""
    words = [sys.executable, "-m", "proctor.models.scripted.server", str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
    assert process.returncode == 0


def stats(base_url: str) -> Any:
    with urllib.request.urlopen(base_url.removesuffix("/v1") + "/_proctor/stats") as answer:
        return json.load(answer)


def records(run: Path) -> Iterator[Any]:
    for file in run.glob("details/*/*/attempt-1/result.json"):
        yield json.loads(file.read_text("utf-8"))


def counts(right: int, evaluated: int, lost: int) -> dict[str, Any]:
    """What the series of the primary metric must say; a fatal task empties the official value."""
    total = evaluated + lost
    return {
        "value": None if lost else right / total, "reference_value": right / evaluated,
        "evaluated": evaluated, "unavailable": 0, "invalidated": lost, "total": total, "error": 0,
        "partial": bool(lost),
    }  # fmt: skip


def said(done: Done) -> tuple[dict[str, int], dict[str, Any]]:
    """The counts and the primary series of the one run in the document."""
    (run,) = done.document["runs"]
    series = run["metrics"]["correct"]["avg@1"]
    assert (run["primary"]["metric"], run["primary"]["value"]) == ("correct", series["value"])
    low, high = series.pop("ci95")
    assert low < series["reference_value"] < high
    return run["counts"], series


def codes_of(run: Path) -> Counter[str]:
    """The codes of the issues in the records of `run`."""
    files = run.glob("details/*/*/attempt-1/result.json")
    return Counter(i["code"] for f in files for i in json.loads(f.read_text("utf-8"))["issues"])


@pytest.mark.slow
def test_the_whole_data_set_is_counted_exactly_also_after_a_resume(tmp_path, shared_data):
    """The endpoint gives up on 55 tasks; when the run is resumed it answers these too."""
    data = shared_data / "gsm8k" / "test.jsonl"
    lines = range(1, 1_320)
    given_up = [line for line in lines if fault_of(line) in ENDS]
    kinds = Counter(kind_of(line) for line in lines)
    assert min(kinds.values()) > 100  # every kind of answer is there, and every fault
    assert {fault_of(line) for line in lines} == {None, *FAULTS}
    right = [line for line in lines if kind_of(line).startswith("right")]
    first_uses = expected_uses(lines)
    (tmp_path / "rules.yaml").write_text(json.dumps(rules(data)), "utf-8")
    with served(tmp_path / "rules.yaml") as base_url:
        first = proctor(
            "run", "--benchmark", "gsm8k", "--data", str(data), "--harness", "none",
            "--model", "any", "--base-url", base_url, "-p", "model.identify_calls=true",
            "-p", f"model.max_retries={RETRIES}", "--concurrency", "64", "--progress", "none",
            "--json", cwd=tmp_path,
        )  # fmt: skip
        requests = stats(base_url)
        (run,) = runs_in(tmp_path)
        codes = codes_of(run)
        second = proctor("resume", str(run), "--progress", "none", "--json", cwd=tmp_path)
        all_requests = stats(base_url)

    assert (first.code, second.code) == (1, 0), first.err + second.err
    lost = len(given_up)
    normal = len(lines) - lost
    counted, series = said(first)
    assert counted == {
        "tasks": 1_319, "normal": normal, "error": 0, "fatal": lost, "interrupted": 0,
        "attempts": 1_319, "reused_attempts": 0,
    }  # fmt: skip
    assert series == counts(len(set(right) - set(given_up)), normal, lost)
    ends = Counter(fault_of(line) for line in given_up)
    unparsed = [line for line in lines if kind_of(line) in UNPARSED]
    assert codes == {
        "unparsed_answer": len(set(unparsed) - set(given_up)),
        "malformed": ends["broken JSON always"] + ends["HTML always"],
        "server_error": ends["500 always"],
        "invalid_request": ends["400"],
    }
    assert requests["rules"] == first_uses
    assert requests["statuses"] == expected_statuses(first_uses)
    assert (requests["requests"], requests["waiting"]) == (first_uses.total(), 0)

    counted, series = said(second)
    assert counted == {
        "tasks": 1_319, "normal": 1_319, "error": 0, "fatal": 0, "interrupted": 0,
        "attempts": 1_319, "reused_attempts": normal,
    }  # fmt: skip
    assert series == counts(len(right), 1_319, 0)
    assert codes_of(run) == {"unparsed_answer": len(unparsed)}
    assert all_requests["rules"] == first_uses + Counter(f"{line} answer" for line in given_up)
    assert (all_requests["requests"], all_requests["waiting"]) == (first_uses.total() + lost, 0)
