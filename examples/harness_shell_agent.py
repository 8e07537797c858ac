"""A harness: an agent that works in a shell until it knows the answer.

proctor run --benchmark table --data examples/logs.jsonl -p benchmark.scorer=exact \\
    --harness examples/harness_shell_agent.py:ShellAgent --model scripted:examples/logs.yaml
"""

from proctor import Harness, HarnessSession, RunResult

RULES = "Reply with one shell command, or with `ANSWER: ` and the answer. You see each output."


class Conversation(HarnessSession):
    def __init__(self, session, task, context):
        self.session, self.task, self.model = session, task, context.model

    async def run(self):
        say = [{"role": "system", "content": RULES}, {"role": "user", "content": self.task.input}]
        for turn in range(1, 11):
            reply = (await self.model.complete(say)).text.strip()
            if reply.startswith("ANSWER:"):
                answer = reply.removeprefix("ANSWER:").strip()
                return RunResult(final_answer=answer, telemetry={"turns": turn})
            done = await self.session.exec(reply, timeout_s=60)
            seen = f"exit code {done.exit_code}\n{done.stdout}{done.stderr}"
            say += [{"role": "assistant", "content": reply}, {"role": "user", "content": seen}]
        return RunResult(error="no answer in 10 turns", telemetry={"turns": 10})


class ShellAgent(Harness):
    """An agent that works in a shell until it knows the answer."""

    id = "shell-agent"
    needs_model = True

    async def start(self, session, task, context):
        return Conversation(session, task, context)
