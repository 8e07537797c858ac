"""An agent that runs out of memory is told apart from one that crashes."""

import pytest
from tests.scenarios.runtime.plugins import Answers, tasks
from tests.scenarios.runtime.runs import Outcome, request

import proctor
from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.cgroups import available
from proctor.environments.contract import EnvironmentSpec, Resources

EAT = "python3 -c 'x = bytearray(400_000_000); print(len(x))'; echo a; exit 1"


class Bounded(Answers):
    """One task whose sandbox may use 100 MB."""

    given = tasks("a", environment=EnvironmentSpec(resources=Resources(memory_mb=100)))
    evaluation_modes = ("none",)


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        (EAT, ["error run agent agent_out_of_memory", "warning run agent agent_exit"]),
        ("echo a; kill -SEGV $$", ["warning run agent agent_exit"]),
    ],
)
def test_the_issue_says_which(tmp_path, need, line, codes):
    need(not BubblewrapEnvironment().requirements(), "bubblewrap does not work here")
    need("memory" in available().controllers, "no control groups for memory")
    asked = request(tmp_path, Bounded, "command", "bubblewrap")
    asked["harness"] = {"id": "command", "command": line}
    report = proctor.run(asked)
    assert Outcome(report).codes() == codes
    # It is evaluated all the same.
    assert report.exit_code == 0
