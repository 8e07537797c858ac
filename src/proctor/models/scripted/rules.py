"""The rule file of the scripted model, version 1. `docs/models.md` shows it with examples."""

import difflib
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from proctor.kernel.digest import of_bytes
from proctor.kernel.errors import DataError
from proctor.models.scripted.yamltext import Places, YamlProblem, parse

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A larger rule file is refused."""

FaultKind = Literal[
    "status", "reset", "hang", "html", "malformed", "empty_choices", "no_content", "cut", "endless"
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        data = cls._long_form(data)
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    raise PydanticCustomError(
                        "unknown_key", "{text}", {"key": key, "text": _unknown(key, cls)}
                    )
        return data

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return data


def _unknown(key: str, model: type[BaseModel]) -> str:
    close = difflib.get_close_matches(key, model.model_fields, n=3, cutoff=0.5)
    hint = (
        "did you mean " + " or ".join(close) + "?"
        if close
        else "known: " + ", ".join(model.model_fields)
    )
    return f"unknown key {key!r}; {hint}"


def _one_or_more(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Numbers = Annotated[
    list[Annotated[int, Field(ge=1)]], BeforeValidator(_one_or_more), Field(min_length=1)
]


class FaultSpec(_Strict):
    """Something that goes wrong instead of an answer.

    `status`: an HTTP status with an error body. `reset`: the connection is reset. `hang`: no
    answer ever. `html`: a page instead of JSON. `malformed`: JSON that breaks off. `empty_choices`
    and `no_content`: JSON without an answer. `cut`: the answer breaks off in the middle.
    `endless`: the answer never ends. A number is short for that status, a word for that kind.
    """

    kind: FaultKind = "status"
    status: int | None = Field(default=None, ge=400, le=599)
    code: str | None = None
    message: str | None = None
    body: str | None = None
    """Sent as it stands instead of the usual error body."""
    retry_after: str | int | float | None = None
    """The Retry-After header, as it stands."""
    retry_after_date_s: float | None = None
    """A Retry-After header with the HTTP date this many seconds from now."""

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, int) and not isinstance(data, bool):
            return {"status": data}
        return {"kind": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _consistent(self) -> "FaultSpec":
        if (self.kind == "status") != (self.status is not None):
            raise ValueError("give either a status or another kind")
        return self


class CallSpec(_Strict):
    """A tool call of a reply. Text `arguments` are sent as they stand, well formed or not."""

    name: str = Field(min_length=1)
    arguments: dict[str, Any] | str = {}
    id: str | None = None


class UsageSpec(_Strict):
    """Token counts to report; unset ones are estimated at one token per four bytes."""

    input_tokens: int | None = Field(default=None, ge=0)
    output_tokens: int | None = Field(default=None, ge=0)
    cached_tokens: int = Field(default=0, ge=0)
    reasoning_tokens: int = Field(default=0, ge=0)


class ReplySpec(_Strict):
    """One answer. A text alone is short for `text`."""

    text: str | None = None
    text_from: Literal["reference", "last_message"] | None = None
    """Answer the task's reference (known in process only), or repeat the last message."""
    tool_calls: list[CallSpec] = []
    reasoning: str | None = None
    finish_reason: str | None = None
    """Default: `tool_calls` when there are any, else `stop`."""
    usage: UsageSpec = UsageSpec()
    delay_s: float = Field(default=0.0, ge=0, le=86400)
    """Wait before the first byte of the answer."""
    chunk_chars: int = Field(default=16, ge=1)
    """Characters in one piece of a streamed answer."""
    chunk_delay_s: float = Field(default=0.0, ge=0, le=3600)
    """Wait before each further piece of a streamed answer."""
    fault: FaultSpec | None = None

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"text": data} if isinstance(data, str) else data

    @model_validator(mode="after")
    def _consistent(self) -> "ReplySpec":
        if self.text is not None and self.text_from is not None:
            raise ValueError("give text or text_from, not both")
        nothing = self.text is None and self.text_from is None and not self.tool_calls
        if nothing and self.fault is None:
            raise ValueError("a reply needs text, text_from, tool_calls or fault")
        return self


class WhenSpec(_Strict):
    """What must hold for a rule; unset conditions always hold."""

    task: str | None = None
    """Glob over the task id: `*`, `?`, `[…]`, upper and lower case told apart."""
    attempt: Numbers | None = None
    turn: Numbers | None = None
    """1 for the first answer of a conversation: one more than its assistant messages."""
    message: str | None = None
    """Regular expression searched for in the text of the last message."""
    message_is: str | None = None
    """The last message's text exactly, outer blanks ignored. Found in constant time."""
    model: str | None = None
    """Glob over the model name that the caller asked for (served over HTTP)."""

    @field_validator("message")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return value

    @field_validator("message_is")
    @classmethod
    def _trimmed(cls, value: str | None) -> str | None:
        return value.strip() if value is not None else None


class RuleSpec(_Strict):
    """The first rule whose conditions hold, and which is not used up, answers."""

    name: str | None = Field(default=None, min_length=1)
    """For counts and messages. Default: `rule-<its number, from 1>`."""
    when: WhenSpec = WhenSpec()
    reply: ReplySpec | None = None
    replies: list[ReplySpec] | None = Field(default=None, min_length=1)
    by: Literal["use", "attempt", "turn"] = "use"
    """What picks one of `replies`: the rule's own uses, the attempt, or the turn. Where there is
    no reply with that number, the rule does not hold."""
    times: int | None = Field(default=None, ge=1)
    """How often the rule may be used. Default: any number of times."""
    per: Literal["attempt", "task", "file"] = "attempt"
    """Within what uses are counted: one attempt, all attempts of a task, or everything."""

    @model_validator(mode="after")
    def _consistent(self) -> "RuleSpec":
        if (self.reply is None) == (self.replies is None):
            raise ValueError("give either reply or replies")
        if self.replies is None and self.by != "use":
            raise ValueError("by needs replies")
        return self


class RuleFile(_Strict):
    """The whole file."""

    version: Literal[1]
    rules: list[RuleSpec] = []
    default: ReplySpec | None = None
    """The answer when no rule holds. Without it such a call is a permanent fault."""

    @model_validator(mode="after")
    def _consistent(self) -> "RuleFile":
        if not self.rules and self.default is None:
            raise ValueError("give at least one rule or a default")
        uses = Counter(rule.name for rule in self.rules if rule.name)
        twice = sorted(name for name, count in uses.items() if count > 1)
        if twice:
            raise ValueError(f"rule names given twice: {', '.join(twice)}")
        return self


def load(path: Path) -> tuple[RuleFile, str]:
    """Read a rule file; gives the rules and the digest of its bytes.

    Raises DataError with every problem as `file:line:column: reason`.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(f"{path} is larger than {MAX_FILE_BYTES // 2**20} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"cannot read the rule file {path}: {error.strerror or error}",
            hint="`--model scripted:FILE.yaml` takes a path from the working directory",
        ) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start})") from None
    return read(text, str(path)), of_bytes(data)


def read(text: str, name: str = "rules") -> RuleFile:
    """Parse the text of a rule file called `name`. Raises DataError."""
    try:
        value, places = parse(text)
    except YamlProblem as problem:
        where = f"{name}:{problem.line}:{problem.column}"
        raise DataError(f"not a rule file: {where}: {problem}") from None
    if not isinstance(value, dict):
        raise DataError(f"not a rule file: {name}:1:1: expected `version: 1` and `rules:`")
    try:
        return RuleFile.model_validate(value)
    except ValidationError as error:
        items = error.errors(include_url=False, include_input=False)
        problems = [f"{name}:{_place(item, places)}: {_reason(item)}" for item in items]
        raise DataError(
            f"{len(problems)} problem(s) in a rule file:",
            problems=problems,
            hint="docs/models.md describes the format",
        ) from None


def _location(item: Any) -> tuple[str | int, ...]:
    key = item.get("ctx", {}).get("key")
    return (*item["loc"], key) if item["type"] == "unknown_key" else tuple(item["loc"])


def _place(item: Any, places: Places) -> str:
    path = _location(item)
    while path and path not in places:
        path = path[:-1]
    line, column = places.get(path, (1, 1))
    return f"{line}:{column}"


_UNION_MEMBERS = re.compile(r"str|int|float|dict\[.*")
"""What pydantic adds to a location to say which alternative of a type it tried."""


def _reason(item: Any) -> str:
    path = ".".join(str(p) for p in item["loc"] if not _UNION_MEMBERS.fullmatch(str(p)))
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "missing":
        message = "is required"
    elif item["type"] == "string_type":
        message = 'must be text (put it in "quotes")'
    return f"{path}: {message}" if path else message
