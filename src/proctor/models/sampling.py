"""Parameters of an answer that every adapter understands."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Sampling(BaseModel):
    """Options that shape an answer. Unset ones are not sent, so the endpoint's own default holds.

    They are part of a model's settings: changing one changes the identity of every answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Randomness of the answer; 0 is the most repeatable."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Probability mass that tokens are drawn from."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer, in tokens."""
    seed: int | None = None
    """Seed of the endpoint's sampler, where it has one."""
    stop: list[str] | None = None
    """Texts at which the answer ends."""

    def parameters(self) -> dict[str, Any]:
        """The parameters that are set, by their name in chat completions."""
        names = Sampling.model_fields
        return {name: value for name in names if (value := getattr(self, name)) is not None}
