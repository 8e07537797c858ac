"""The agent that does nothing and answers the empty text: what it passes proves nothing."""

from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts import AttemptContext, Harness, HarnessSession, PreparedTask, RunResult


class Nop(Harness):
    """Does nothing; a sound benchmark gives it 0."""

    id = "nop"

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        return _Nothing()


class _Nothing(HarnessSession):
    async def run(self) -> RunResult:
        return RunResult(final_answer="")
