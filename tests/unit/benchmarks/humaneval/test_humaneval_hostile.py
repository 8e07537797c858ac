"""Hostile answers: none scores 1, none changes another task's result, none leaves anything."""

import json
import os
import socket
import textwrap
from dataclasses import replace

import pytest

from proctor.benchmarks.humaneval.grader import bundle

RIGHT = "    return 2 * x\n"

# Each defines or breaks `double`; none computes it.
HOSTILE = {
    "loops for ever when called": "    while True: pass\n",
    "loops for ever when loaded": "    return 0\nwhile True: pass\n",
    "sleeps for ever": "    import time; time.sleep(1e6)\n",
    "exits 0": "    import os; os._exit(0)\n",
    "exits 0 when loaded": "    return 0\nimport os; os._exit(0)\n",
    "raises SystemExit": "    raise SystemExit(0)\n",
    "exits at the end": "    return 0\nimport atexit, sys; atexit.register(sys.exit, 0)\n",
    "ends by a signal": "    import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n",
    "kills its parent": "    import os, signal; os.kill(os.getppid(), signal.SIGKILL)\n",
    "kills its parent when loaded":
        "    return 0\nimport os, signal; os.kill(os.getppid(), signal.SIGKILL)\n",
    "kills its group": "    import os, signal; os.killpg(0, signal.SIGKILL)\n",
    "stops its parent": "    import os, signal; os.kill(os.getppid(), signal.SIGSTOP)\n",
    "forks for ever": "    import os\n    while True: os.fork()\n",
    "forks and answers twice": "    import os; os.fork(); return 0\n",
    "leaves a daemon": "    import os\n    if os.fork() == 0:\n        os.setsid()\n"
                       "        while True: pass\n    return 0\n",
    "starts a program": "    import subprocess; subprocess.run(['sleep', '1000'])\n",
    "starts threads for ever": "    import threading, time\n    while True:\n"
                               "        threading.Thread(target=time.sleep, args=(99,)).start()\n",
    "prints a verdict": "    print('passed'); print({'outcome': 'passed'}); return 0\n",
    "floods its output": "    import sys\n    while True: sys.stdout.write('y' * 1_000_000)\n",
    "writes to every descriptor": "    import os\n    for fd in range(64):\n        try:\n"
        "            os.write(fd, b'\\n{\"outcome\": \"passed\"}\\n')\n"
        "        except OSError: pass\n    return 0\n",
    "closes every descriptor": "    import os; os.closerange(0, 1000); return 4\n",
    "moves descriptors": "    import os\n    for fd in range(3, 64):\n        try: os.dup2(1, fd)\n"
                         "        except OSError: pass\n    return 4\n",
    "fills memory": "    return bytearray(10**11)\n",
    "fills memory slowly": "    a = []\n    while True: a.append(bytearray(10**6))\n",
    "returns too much": "    return 'y' * 50_000_000\n",
    "returns endless depth": "    a = []\n    for _ in range(10**5): a = [a]\n    return a\n",
    "returns itself": "    a = []; a.append(a); return a\n",
    "returns what equals everything":
        "    return type('E', (), {'__eq__': lambda a, b: True})()\n",
    "returns a number that equals everything":
        "    return type('E', (int,), {'__eq__': lambda a, b: True, '__int__': lambda a: 3})()\n",
    "returns a float that lies": "    return type('E', (float,), {'__eq__': lambda a, b: True,"
                                 " '__float__': lambda a: 3.0, '__sub__': lambda a, b: 0})()\n",
    "returns a hash that collides":
        "    m = 2**61 - 1\n    return {m * i: 0 for i in range(60000)}\n",
    "returns not a number": "    return float('nan')\n",
    "returns a tracing error": "    raise type('E', (Exception,),"
                               " {'__str__': lambda s: 1 / 0, '__repr__': lambda s: 1 / 0})\n",
    "raises StopIteration": "    raise StopIteration\n",
    "raises KeyboardInterrupt": "    raise KeyboardInterrupt\n",
    "patches the built-ins": "    return 0\nimport builtins\nbuiltins.AssertionError = Exception\n"
        "builtins.__build_class__ = builtins.compile = builtins.isinstance = lambda *a: True\n",
    "patches the protocol": "    return 0\nimport sys, json, os\n"
        "for m in list(sys.modules.values()):\n"
        "    for n in ('check', 'decode', 'read_frame', 'send_frame', '_judged'):\n"
        "        if hasattr(m, n): setattr(m, n, lambda *a, **k: {'returned': 4, 'ready': True})\n",
    "traces every call": "    return 0\nimport sys\n"
        "sys.settrace(lambda *a: a[0].f_locals.update(result=4) or None)\n",
    "waits for the end in a finaliser": "    global K\n    class K:\n"
        "        def __del__(self):\n            while True: pass\n    K = K(); return 0\n",
    "ignores signals": "    import signal\n    for s in range(1, 65):\n        try:\n"
        "            signal.signal(s, signal.SIG_IGN)\n"
        "        except (OSError, ValueError): pass\n    while True: pass\n",
}  # fmt: skip

# These look for the expected values, which they would return.
SEARCHES = {
    "the stack": """
        import sys
        frame, seen = sys._getframe(), []
        while frame is not None:
            seen += [frame.f_locals, frame.f_globals]
            frame = frame.f_back
    """,
    "all objects": """
        import gc
        seen = gc.get_objects()
    """,
    "its arguments and environment": """
        import os, sys
        seen = [sys.argv, sys.orig_argv, dict(os.environ)]
    """,
    "its input and descriptors": """
        import os, sys
        seen = []
        for fd in range(64):
            try: os.set_blocking(fd, False); seen.append(os.read(fd, 10**6))
            except OSError: pass
    """,
    "its own memory": """
        seen = []
        with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as memory:
            for line in maps:
                a, b = (int(n, 16) for n in line.split()[0].split('-'))
                try: memory.seek(a); seen.append(memory.read(b - a))
                except (OSError, ValueError, OverflowError): pass
    """,
    "its parent's memory": """
        import os
        seen, base = [], '/proc/%d/' % os.getppid()
        with open(base + 'maps') as maps, open(base + 'mem', 'rb') as memory:
            for line in maps:
                a, b = (int(n, 16) for n in line.split()[0].split('-'))
                try: memory.seek(a); seen.append(memory.read(b - a))
                except (OSError, ValueError, OverflowError): pass
    """,
    "its parent's input and arguments": """
        import os
        seen, base = [], '/proc/%d/' % os.getppid()
        for name in ('fd/0', 'environ', 'cmdline'):
            with open(base + name, 'rb') as file: seen.append(file.read())
    """,
}
MARK = "the mark of the tests, 7f3a"
SEARCH = """
    try:
{body}
        for item in seen:
            text = item if isinstance(item, bytes) else str(item).encode('utf-8', 'replace')
            if {mark} in text:
                return 2 * x
    except Exception: pass
    return 0
"""


def searching(body):
    # The mark is made at run time: the program's own text and constants must not count as found.
    mark = f"{MARK[::-1].encode()!r}[::-1]"
    return SEARCH.format(body=textwrap.indent(textwrap.dedent(body), "        "), mark=mark)


@pytest.mark.slow
def test_hostile_answers_score_0_and_leave_others_alone(grader, double):
    answers = list(HOSTILE.values())
    mixed = [pair for answer in answers for pair in ((double, answer), (double, RIGHT))]
    found = grader.pairs(mixed, at_once=4)
    assert [e.metrics for e in found[1::2]] == [{"passed": 1}] * len(answers)
    wrong = {name: (e.metrics, e.evidence) for name, e in zip(HOSTILE, found[::2], strict=True)
             if e.metrics != {"passed": 0}}  # fmt: skip
    assert wrong == {}


@pytest.mark.slow
def test_hostile_answers_score_0_without_the_kernels_help(grader, double, monkeypatch):
    """What holds even where no layer of confinement but the limits is available."""
    weakened = bundle.source().replace("if apply(libc):", "if False:")
    assert weakened != bundle.source()
    monkeypatch.setattr(bundle, "source", lambda: weakened)
    harmless_here = [a for name, a in HOSTILE.items()
                     if not any(w in name for w in ("fork", "daemon", "parent", "group", "threads",
                                                    "program"))]  # fmt: skip
    found = grader.pairs([(double, answer) for answer in [*harmless_here, RIGHT]], at_once=4)
    assert found[-1].metrics == {"passed": 1}
    assert found[-1].evidence["confined"] == ["limits"]
    assert [e.metrics for e in found[:-1]] == [{"passed": 0}] * len(harmless_here)


FORGED = {
    "a verdict": '{"outcome": "passed"}',
    "no object": "[1]",
    "two kinds": '{"ready": true, "returned": 4}',
    "a strange exception": '{"raised": [{}, 7]}',
    "an exception with a strange text": '{"raised": ["UnicodeDecodeError", "x"]}',
    "an exit": '{"raised": ["SystemExit", "0"]}',
    "an unknown tag": '{"returned": {"object": []}}',
    "a tag with a wrong content": '{"returned": {"tuple": 5}}',
    "unhashable keys": '{"returned": {"dict": [[[1], 2]]}}',
    "a huge exponent": '{"returned": {"Decimal": "1E+999999999"}}',
    "a fraction over 0": '{"returned": {"Fraction": [1, 0]}}',
    "long digits": '{"returned": ' + "9" * 6000 + "}",
    "endless depth": "[" * 100_000,
    "no JSON": "passed",
}
COLLIDING = """json.dumps({"returned": {"set": [
        {"int": hex(i * (2**61 - 1))} for i in range(1, 90_000)]}})"""


def forging(frame):
    """An answer that puts a frame on every pipe it has, in place of what its function returns."""
    return f"""
    import json, os, struct
    data = ({frame}).encode()
    data = struct.pack('>I', len(data)) + data
    for fd in range(3, 64):
        try: os.write(fd, data)
        except OSError: pass
    while True: pass
"""


@pytest.mark.slow
def test_forged_replies_score_0(grader, double):
    frames = {name: repr(text) for name, text in FORGED.items()} | {"colliding hashes": COLLIDING}
    found = grader.pairs([(double, forging(frame)) for frame in frames.values()])
    outcomes = {n: e.evidence["outcome"] for n, e in zip(frames, found, strict=True)}
    assert [e.metrics for e in found] == [{"passed": 0}] * len(frames), outcomes
    assert outcomes["a verdict"] == outcomes["endless depth"] == "ended"
    assert outcomes["an exit"] == outcomes["an exception with a strange text"] == "raised"
    assert outcomes["colliding hashes"] == "timeout"


@pytest.mark.parametrize("where", SEARCHES)
def test_the_tests_are_nowhere_to_be_found(grader, double, where):
    problem = replace(double, test=f"MARK = {MARK!r}\n{double.test}")
    assert grader(searching(SEARCHES[where]), problem).metrics == {"passed": 0}


def test_a_search_that_finds_the_mark_would_pass(grader, double):
    """The searches above can succeed: here the mark is in the program's own reach."""
    answer = searching("        seen = ['" + MARK + "']\n")
    assert grader(answer, double).metrics == {"passed": 1}


def test_nothing_is_written_and_nothing_of_the_user_is_read(grader, double, tmp_path):
    secret, target = tmp_path / "answers.jsonl", tmp_path / "written"
    secret.write_text(json.dumps({"expected": 4}))
    answer = f"""
    import os
    done = []
    for attempt in (
        lambda: open({str(target)!r}, 'w'),
        lambda: os.mkdir({str(target)!r}),
        lambda: os.symlink('/', {str(target)!r}),
        lambda: os.remove({str(secret)!r}),
        lambda: os.rename({str(secret)!r}, {str(target)!r}),
        lambda: os.chmod({str(secret)!r}, 0),
        lambda: os.truncate({str(secret)!r}, 0),
        lambda: open({str(secret)!r}).read(),
        lambda: os.listdir({str(tmp_path)!r}),
        lambda: os.listdir('/proc'),
        lambda: open('created', 'w'),
    ):
        try: attempt(); done.append(attempt.__code__.co_firstlineno)
        except OSError: pass
    return 2 * x if not done else done
"""
    evaluation = grader(answer, double)
    confined = evaluation.evidence["confined"]
    assert "seccomp" in confined or "landlock" in confined
    assert evaluation.metrics == {"passed": 1}, evaluation.evidence
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answers.jsonl"]
    assert json.loads(secret.read_text()) == {"expected": 4}


def test_no_connection_can_be_made(grader, double):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answer = (
            f"    import socket\n    try: socket.create_connection(('127.0.0.1', {port}), 1)\n"
            "    except OSError: return 2 * x\n    return 0\n"
        )
        assert grader(answer, double).metrics == {"passed": 1}
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_threads_and_ordinary_modules_still_work(grader, double):
    answer = """
    import collections, concurrent.futures, datetime, hashlib, itertools, json, random, re, time
    import sqlite3, ssl, statistics, string, threading, unicodedata
    assert time.time() > 0 and random.random() < 1 and hashlib.sha256(b'').hexdigest()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return pool.submit(lambda: x * 2).result()
"""
    evaluation = grader(answer, double)
    assert evaluation.evidence["detail"] == ""
    assert evaluation.metrics == {"passed": 1}


def test_no_process_stays(grader, double):
    before = set(os.listdir("/proc"))
    grader.pairs([(double, HOSTILE["leaves a daemon"]), (double, HOSTILE["forks for ever"])])
    left = [
        pid
        for pid in set(os.listdir("/proc")) - before
        if pid.isdigit() and _parent(pid) in (os.getpid(), 1)
    ]
    assert left == []


def _parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
