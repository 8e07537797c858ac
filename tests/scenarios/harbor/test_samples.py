"""The sample data set: solved it is right, untouched or wrongly solved it is wrong."""

import asyncio

import pytest
from tests.scenarios.harbor.driving import attempt, codes, solve

from proctor.benchmarks import samples
from proctor.benchmarks.harbor import Harbor

TASKS = {task.id: task for task in Harbor(data=samples.path()).load_tasks()}

RIGHT = {"passed": True, "reward": 1.0}
WRONG = {"passed": False, "reward": 0.0}


def evaluate(name, agent=None):
    return asyncio.run(attempt(TASKS[name], agent))


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_reference_solution_is_right(name):
    async def oracle(session):
        await solve(session, TASKS[name])

    found = evaluate(name, oracle)
    assert dict(found.metrics) == RIGHT, found


@pytest.mark.parametrize("name", sorted(TASKS))
def test_doing_nothing_is_wrong(name):
    found = evaluate(name)
    assert dict(found.metrics) == WRONG, found


SLOW = pytest.mark.slow

# Solved and then spoilt: each change is a mistake that a hurried agent could make.
SPOILT = [
    ("access-log", "sed -i 's/^slowest 09 344/slowest 09 345/' answers.txt"),
    ("access-log", "sed -i '1s/.*/requests 183/' answers.txt"),
    ("build-order", "sort -o order.txt order.txt"),
    ("build-order", "sed -i '$d' order.txt"),
    ("build-order", "head -1 order.txt >> order.txt"),
    ("cheapest-route", "sed -i 's/count + 1, source/count, source/' route.py"),
    ("cheapest-route", "sed -i 's/print(\"none\")/print(-1)/' route.py"),
    pytest.param("cheapest-route", "sed -i '1i import time; time.sleep(60)' route.py", marks=SLOW),
    ("clean-contacts", "sed -i 's/2020-02-29/2020-03-01/' clean.csv"),
    ("clean-contacts", "sed -i 's/$/\\r/' clean.csv"),
    ("merge-intervals", "sed -i 's/sorted(intervals)/intervals/' intervals.py"),
    ("merge-intervals", "sed -i 's/sorted(intervals)/intervals.sort() or intervals/' intervals.py"),
    ("merge-intervals", "sed -i 's/start <= merged/start < merged/' intervals.py"),
    ("order-totals", "sed -i 's/151.55/151.5/' totals.json"),
    ("order-totals", "sed -i 's/BOLT-6/NUT-6/' totals.json"),
    ("repair-config", "sed -i 's/workers = 8/workers = 6/' server.ini"),
    ("repair-config", "sed -i '/^#/d' server.ini"),
    ("repair-config", "printf '[extra]\\na = 1\\n' >> server.ini"),
    ("slug-titles", "sed -i 's/\\[:40\\]//' slugify.py"),
    ("slug-titles", "sed -i 's/.rstrip(\"-\")//' slugify.py"),
    ("slug-titles", "sed -i 's/while slug in seen/if slug in seen/' slugify.py"),
    ("sort-downloads", "sed -i 's/ && continue/ \\&\\& true/' sort-downloads.sh"),
    ("sort-downloads", "sed -i 's/ | tr .*)/)/' sort-downloads.sh"),
    ("sort-downloads", "sed -i 's/exit 2/exit 0/' sort-downloads.sh"),
    ("split-invoice", "sed -i 's/>= 10/> 10/' invoice.py"),
    ("split-invoice", "sed -i 's/ + 50) / + 49) /' invoice.py"),
    ("split-invoice", "echo >> test_invoice.py"),
    ("split-invoice", "printf 'import os\\nos._exit(0)\\n' > invoice.py"),
    ("version-pattern", "echo '.*' > pattern.txt"),
    ("version-pattern", "sed -i 's/0|\\[1-9\\]\\[0-9\\]\\*/[0-9]+/g' pattern.txt"),
    pytest.param("version-pattern", "sed -i 's/$/|(.|a)*x/' pattern.txt", marks=SLOW),
    ("working-days", "sed -i 's/weekday() < 5/weekday() < 6/' workdays.py"),
    ("working-days", "sed -i 's/ and text\\[5:\\] not in holidays//' workdays.py"),
    ("working-days", "sed -i 's/else -count(last, first)/else count(last, first)/' workdays.py"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change"), SPOILT)
def test_a_mistake_is_wrong(name, change):
    async def agent(session):
        await solve(session, TASKS[name])
        before = await session.exec("cat *")
        changed = await session.exec(change)
        assert changed.ok, changed
        assert (await session.exec("cat *")).stdout != before.stdout

    found = evaluate(name, agent)
    assert dict(found.metrics) == WRONG, found


def test_every_sample_has_mistakes_to_catch():
    first = [case[0] for case in SPOILT]  # of a marked case, the tuple of its values
    assert {name if isinstance(name, str) else name[0] for name in first} == set(TASKS)


# A program that, while it is graded, looks for the tests and the verdict's file by way of the
# process that started it, writes verdicts, and then ends as if all were well.
THIEF = """
import glob, os
for pid in (os.getppid(), os.getpid()):
    try:
        pairs = open(f"/proc/{pid}/environ", "rb").read().split(b"\\0")
    except OSError:
        continue
    found = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
    logs = os.path.join(found.get(b"LOGS_DIR", b"/nowhere"), b"verifier")
    tests = found.get(b"TESTS_DIR", b"/nowhere")
    for name, text in ((b"reward.json", '{"reward": 1}'), (b"reward.txt", "1")):
        try:
            open(os.path.join(logs, name), "w").write(text)
        except OSError:
            pass
    for path in glob.glob(os.path.join(tests, b"*")):
        print("FOUND", path)
"""
PROGRAMS = {
    "slug-titles": "slugify.py",
    "merge-intervals": "intervals.py",
    "cheapest-route": "route.py",
    "split-invoice": "invoice.py",
    "working-days": "workdays.py",
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_that_writes_its_own_verdict_gains_nothing(name):
    async def agent(session):
        await session.write(PROGRAMS[name], THIEF.encode())

    found = evaluate(name, agent)
    assert dict(found.metrics) == WRONG, found
    assert b"FOUND" not in found.artifacts["verifier/test-stdout.txt"]


def test_a_program_that_kills_its_grader_gains_nothing():
    async def agent(session):
        await session.write("route.py", b"import os, signal; os.kill(os.getppid(), signal.SIGKILL)")

    found = evaluate("cheapest-route", agent)
    assert dict(found.metrics) == {}
    assert codes(found) == ["reward_missing"]


@pytest.mark.parametrize(
    "agent",
    [
        "ln -s /etc/hostname answers.txt",
        "mkfifo answers.txt",
        "mkdir answers.txt",
        "head -c 3000000 /dev/zero > answers.txt",
        "printf '\\377\\376' > answers.txt",
    ],
)
def test_an_odd_kind_of_result_is_wrong_not_a_failure_of_the_tests(agent):
    assert dict(evaluate("access-log", agent).metrics) == WRONG


def test_deeply_nested_json_is_wrong_not_a_failure_of_the_tests():
    async def agent(session):
        await session.write("totals.json", b"[" * 500_000)

    assert dict(evaluate("order-totals", agent).metrics) == WRONG
