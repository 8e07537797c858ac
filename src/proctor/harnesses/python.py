"""A Python callable as an agent: `async def agent(task, session, model)`.

The callable runs in the driver's process: it is the user's own code, like a plug-in. Whatever it
makes the agent execute belongs into `session.exec`.
"""

import inspect
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from proctor.environments.contract import EnvironmentSession
from proctor.evals import registry
from proctor.evals.contracts import AttemptContext, Harness, HarnessSession, PreparedTask, RunResult
from proctor.evals.threads import TrackedThreads
from proctor.kernel.digest import of_bytes
from proctor.kernel.errors import OptionError


class PythonOptions(BaseModel):
    """`callable` is `module:function` or `file.py:function`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    callable: str = Field(min_length=3)


class PythonCallable(Harness):
    """Calls `agent(task, session, model)`; it returns the final answer or a RunResult."""

    id = "python"
    Options = PythonOptions

    def __init__(self, options: PythonOptions | None = None) -> None:
        super().__init__(options)
        self._agent = registry.load_callable(options.callable) if options is not None else None
        self._threads = TrackedThreads()

    def settings(self) -> dict[str, Any]:
        """The source of the callable's module, so that an edited agent is not taken for the
        old one."""
        return {"source": _source_digest(self._agent)}

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        if self._agent is None:
            raise OptionError("harness python needs -p harness.callable=file.py:function")
        return _Call(self._agent, session, task, context, self._threads)


@dataclass(slots=True)
class _Call(HarnessSession):
    agent: Any
    session: EnvironmentSession
    task: PreparedTask
    context: AttemptContext
    threads: TrackedThreads

    async def run(self) -> RunResult:
        arguments = (self.task, self.session, self.context.model)
        if inspect.iscoroutinefunction(self.agent):
            answer = await self.agent(*arguments)
        else:
            answer = await self.threads.call("agent", self.agent, *arguments)
            if inspect.isawaitable(answer):
                answer = await answer
        return answer if isinstance(answer, RunResult) else RunResult(final_answer=answer)


def _source_digest(agent: Any) -> str | None:
    try:
        path = inspect.getsourcefile(agent)
    except TypeError:
        return None
    if path is None:
        return None
    with open(path, "rb") as file:
        return of_bytes(file.read())
