"""Every executor passes the suite that ships with proctor."""

from proctor.evals.executors import Executor, LocalExecutor
from proctor.testing.conformance.executor import ExecutorConformance


class TestLocal(ExecutorConformance):
    def executor(self) -> Executor:
        return LocalExecutor()
