"""Grading in `bubblewrap`: right answers pass, hostile ones do not touch the host."""

import os
import subprocess

import pytest

from proctor.benchmarks.humaneval import HumanEval
from proctor.benchmarks.humaneval.grader import bundle
from proctor.environments.bubblewrap import BubblewrapEnvironment

RIGHT = "    return 2 * x\n"
ATTACKS = {
    "kills its parent": "    import os, signal; os.kill(os.getppid(), signal.SIGKILL)\n",
    "kills the sentinel": "    import os, signal; os.kill({pid}, signal.SIGKILL)\n",
    "leaves a daemon": "    import os\n    if os.fork() == 0:\n        os.setsid()\n"
    "        while True: pass\n    return 0\n",
    "writes": "    open({path!r}, 'w').write('x'); return 0\n",
    "removes": "    import os; os.remove({path!r}); return 0\n",
    "reads": "    return 2 * x if 'secret' in open({path!r}).read() else 0\n",
    "lists processes": "    import os\n    for p in os.listdir('/proc'):\n        try:\n"
    "            if b'sentinel' in open('/proc/%s/cmdline' % p, 'rb').read(): return 2 * x\n"
    "        except OSError: pass\n    return 0\n",
}


@pytest.fixture
def boxed(new_grader, need):
    environment = BubblewrapEnvironment()
    missing = environment.requirements()
    need(not missing, f"bubblewrap cannot be used here: {missing}")
    return new_grader(environment)


def test_reference_solutions_pass(boxed, human_eval):
    tasks = HumanEval(data=human_eval).load_tasks()[::12]
    found = boxed.pairs([(t.data, t.reference.answer) for t in tasks])
    assert [e.metrics.get("passed") for e in found] == [1] * len(tasks)


@pytest.mark.parametrize("layers", ["all layers", "only limits"])
def test_attacks_neither_pass_nor_reach_the_host(boxed, double, tmp_path, monkeypatch, layers):
    """With and without the candidate's own confinement: the sandbox alone has to hold."""
    if layers == "only limits":
        weakened = bundle.source().replace("if apply(libc):", "if False:")
        monkeypatch.setattr(bundle, "source", lambda: weakened)
    path = tmp_path / "host.txt"
    path.write_text("secret")
    sentinel = subprocess.Popen(["sh", "-c", "read line # sentinel"], stdin=subprocess.PIPE)
    try:
        answers = [a.format(pid=sentinel.pid, path=str(path)) for a in ATTACKS.values()]
        found = boxed.pairs([(double, answer) for answer in [*answers, RIGHT]])
        assert sentinel.poll() is None
    finally:
        sentinel.kill()
        sentinel.communicate()
    assert found[-1].metrics == {"passed": 1}
    confined = found[-1].evidence["confined"]
    assert (confined == ["limits"]) == (layers == "only limits")
    scores = dict(zip(ATTACKS, (e.metrics.get("passed") for e in found[:-1]), strict=True))
    # Without its confinement, a candidate that kills the checker leaves no verdict.
    expected = dict.fromkeys(ATTACKS, 0)
    if layers == "only limits":
        expected["kills its parent"] = None
    assert scores == expected
    assert path.read_text() == "secret"
    assert os.listdir(tmp_path) == ["host.txt"]
