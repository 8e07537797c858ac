"""Any command line as an agent: the task's input on stdin, the answer on stdout."""

import json
import shlex
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from proctor.environments.contract import EnvironmentSession, ExecResult
from proctor.evals.contracts import AttemptContext, Harness, HarnessSession, PreparedTask, RunResult
from proctor.kernel.errors import EnvironmentFault
from proctor.kernel.jsontext import JsonValue

STDERR_KEPT_CHARS = 4_000
ANSWER_LIMIT_BYTES = 1_000_000
"""Longer output keeps its head and tail, and is noted in the telemetry."""
INSTRUCTION_FILE = ".proctor/instruction.md"


class CommandOptions(BaseModel):
    """`command` is run by the environment's shell in the workspace. `answer_file` (relative to
    the workspace) is the final answer instead of stdout."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    command: str = Field(min_length=1)
    answer_file: str | None = None


class Command(Harness):
    """Runs a command line; only `{instruction_file}` and `{workspace}` are replaced in it."""

    id = "command"
    Options = CommandOptions

    async def start(
        self, session: EnvironmentSession, task: PreparedTask, context: AttemptContext
    ) -> HarnessSession:
        options: CommandOptions = self.options
        text = input_text(task.input)
        line = options.command.replace("{workspace}", shlex.quote(session.paths.workspace))
        if "{instruction_file}" in line:
            path = session.resolve(INSTRUCTION_FILE)
            await session.write(path, text.encode("utf-8"))
            line = line.replace("{instruction_file}", shlex.quote(path))
        return _Run(session, line, text, options.answer_file, context)


def input_text(value: JsonValue) -> str:
    """The task's input as text, nothing added; a list or object as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class _Run(HarnessSession):
    keeps_time = True
    session: EnvironmentSession
    line: str
    input: str
    answer_file: str | None
    context: AttemptContext
    seen: RunResult | None = None

    async def run(self) -> RunResult:
        done = await self.session.exec(
            self.line,
            env=self._env(),
            stdin=self.input.encode("utf-8"),
            timeout_s=self.context.deadline_s,
            output_limit_bytes=ANSWER_LIMIT_BYTES,
        )
        return RunResult(
            final_answer=await self._answer(done),
            exit_code=done.exit_code,
            timed_out=done.timed_out,
            telemetry=_telemetry(done),
        )

    def _env(self) -> dict[str, str]:
        context = self.context
        env = {
            **self.session.script_env(),
            "PROCTOR_TASK_ID": context.task_id,
            "PROCTOR_ATTEMPT": str(context.attempt),
        }
        if context.deadline_s is not None:
            env["PROCTOR_DEADLINE_S"] = format(context.deadline_s, "g")
        if context.model is not None:
            env["PROCTOR_MODEL"] = context.model.name
        return env

    async def _answer(self, done: ExecResult) -> str | None:
        """stdout without trailing newlines, as in `$(…)`; or the answer file, if there is one."""
        if self.answer_file is None:
            return done.stdout.rstrip("\n")
        try:
            data = await self.session.read(self.answer_file, limit_bytes=ANSWER_LIMIT_BYTES)
        except FileNotFoundError:
            return None
        except EnvironmentFault as error:
            if error.fault_code in ("not_a_file", "too_large", "refused_path"):
                return None  # the agent's own doing: no answer
            raise
        return data.decode("utf-8", errors="replace").rstrip("\n")


def _telemetry(done: ExecResult) -> dict[str, object]:
    found: dict[str, object] = {"duration_s": round(done.duration_s, 3)}
    if done.stderr:
        found["stderr"] = done.stderr[-STDERR_KEPT_CHARS:]
    if done.truncated:
        found["dropped_bytes"] = done.dropped_bytes
    if done.lingering:
        found["lingering_processes_killed"] = True
    if done.out_of_memory:
        found["out_of_memory"] = True
    if done.out_of_storage:
        found["out_of_storage"] = True
    return found
