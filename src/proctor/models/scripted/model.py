"""The scripted model in process: `--model scripted:FILE.yaml` or `scripted:reference`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proctor.kernel.clock import Clock, SystemClock
from proctor.kernel.errors import ModelFault
from proctor.models.contract import CallContext, Message, Model, ModelReply
from proctor.models.errors import Category, Failure, RequestFailed, classify, fault
from proctor.models.sampling import Sampling
from proctor.models.scripted.answer import Answer, NoReference, answer
from proctor.models.scripted.rules import FaultSpec, ReplySpec, RuleFile, load
from proctor.models.scripted.script import Ask, Script
from proctor.models.scripted.wire import error_body, retry_after_header
from proctor.models.toolcalls import tool_call

REFERENCE = "reference"
"""The name that answers every task with its reference."""

_FAULTS = {
    "reset": (Category.CONNECTION, "the connection was reset"),
    "html": (Category.MALFORMED, "the endpoint answered HTML instead of JSON"),
    "malformed": (Category.MALFORMED, "the reply is not JSON"),
    "empty_choices": (Category.MALFORMED, "the reply has no choices"),
    "no_content": (Category.MALFORMED, "the reply has neither content nor tool calls"),
    "cut": (Category.TRUNCATED, "the reply was cut"),
    "endless": (Category.TOO_LARGE, "the reply never ended"),
}


class ScriptedModel(Model):
    """Answers from a rule file, or from the task's reference. Deterministic, offline.

    Sampling options are accepted and recorded, so that a request can be tried here before it is
    pointed at a real endpoint; they do not change an answer. A fault of the rule file is raised
    at once, as the fault that the HTTP adapter would raise for the same reply.
    """

    id = "scripted"
    version = "1"
    Options = Sampling

    def __init__(self, name: str, options: Any = None, *, clock: Clock | None = None) -> None:
        super().__init__(name, options or Sampling())
        self._clock: Clock = clock or SystemClock()
        self._digest: str | None = None
        if name in (REFERENCE, ""):
            rules = RuleFile(version=1, default=ReplySpec(text_from="reference"))
        else:
            rules, self._digest = load(Path(name).expanduser())
        self._script = Script(rules)

    def settings(self) -> dict[str, Any]:
        settings = {**super().settings(), "parameters": self.options.parameters()}
        if self._digest is not None:
            settings["rules"] = self._digest
        return settings

    async def complete(
        self, messages: Sequence[Message], *, context: CallContext, **parameters: Any
    ) -> ModelReply:
        """Answer by the first rule that holds. Raises ModelFault."""
        ask = Ask(messages, context.task_id, context.attempt, self.name, context.reference)
        chosen = self._script.choose(ask)
        if chosen is None:
            raise ModelFault(
                f"no rule of {self.name} holds for task {context.task_id!r}, "
                f"attempt {context.attempt}, turn {ask.turn}",
                code="no_rule",
                permanent=True,
                hint="add a rule or a `default:` to the rule file",
            )
        reply = chosen.reply
        if reply.delay_s:
            await self._clock.sleep(reply.delay_s)
        try:
            if reply.fault is not None:
                raise RequestFailed(await self._failure(reply.fault))
            return _model_reply(answer(reply, ask))
        except RequestFailed as error:
            raise fault(error.failure, 1, permanent=error.failure.permanent) from None
        except NoReference:
            raise ModelFault(
                f"task {context.task_id!r} has no reference to answer with",
                code="no_reference",
                permanent=True,
                hint="use a rule file, or tasks that have a reference solution",
            ) from None

    async def _failure(self, spec: FaultSpec) -> Failure:
        if spec.kind == "hang":
            await asyncio.Event().wait()
        if spec.status is None:
            return Failure(*_FAULTS[spec.kind])
        now = self._clock.now()
        value = retry_after_header(spec, now)
        headers = {} if value is None else {"retry-after": value}
        return classify(spec.status, headers, error_body(spec), now)


def _model_reply(made: Answer) -> ModelReply:
    if made.calls and made.finish_reason == "length":
        raise RequestFailed(Failure(Category.TRUNCATED, "a tool call was cut by the token limit"))
    return ModelReply(
        text=made.text or "",
        usage=made.usage,
        tool_calls=tuple(tool_call(call.id, call.name, call.arguments) for call in made.calls),
        reasoning=made.reasoning,
        finish_reason=made.finish_reason,
    )
