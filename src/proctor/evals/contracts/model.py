"""The model as one attempt sees it: every call is charged to that attempt."""

from collections.abc import Sequence
from typing import Any

from proctor.models.contract import CallContext, Message, Model, ModelReply, Usage


class AttemptModel:
    """`await model.complete(messages)`; `usage` is what this attempt has spent so far."""

    def __init__(self, model: Model, call: CallContext) -> None:
        self._model = model
        self._call = call
        self.usage = Usage()

    @property
    def name(self) -> str:
        """The model's id as the user wrote it."""
        return self._model.name

    async def complete(self, messages: Sequence[Message], **parameters: Any) -> ModelReply:
        """One completion. Raises ModelFault."""
        reply = await self._model.complete(messages, context=self._call, **parameters)
        self.usage += reply.usage
        return reply
