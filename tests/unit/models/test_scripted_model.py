"""The scripted model in process."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from proctor.kernel.errors import ModelFault
from proctor.kernel.issues import Cause
from proctor.models.contract import CallContext, ModelReply, ToolCall, Usage
from proctor.models.openai import OpenAIModel
from proctor.models.sampling import Sampling
from proctor.models.scripted import ScriptedModel
from proctor.models.scripted.rules import read
from proctor.models.scripted.script import Ask, Script

DOCS = Path(__file__).parents[3] / "docs" / "models.md"


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def scripted(tmp_path: Path, text: str) -> ScriptedModel:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    return ScriptedModel(str(path))


def ask(
    model: ScriptedModel,
    text: str = "?",
    task: str = "t",
    attempt: int = 1,
    reference: str | None = None,
) -> ModelReply:
    context = CallContext(task, attempt, reference)
    return asyncio.run(model.complete(user(text), context=context))


def fault(model: ScriptedModel, **asked: Any) -> ModelFault:
    with pytest.raises(ModelFault) as caught:
        ask(model, **asked)
    return caught.value


def test_the_documented_example_works(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(version: 1\n.*?)```", DOCS.read_text(), re.DOTALL)
    assert block is not None
    model = scripted(tmp_path, block[1])
    refused = fault(model, task="sums/2", attempt=1)
    assert (refused.fault_code, refused.retry_after_s) == ("rate_limited", 3.0)
    assert ask(model, task="sums/2", attempt=1).text == "no"
    fault(model, task="sums/2", attempt=3)
    assert ask(model, task="sums/2", attempt=3).text == "no"
    fault(model, task="sums/2", attempt=2)
    assert ask(model, task="sums/2", attempt=2).text == "yes"

    first = ask(model, task="files/1")
    assert first.tool_calls == (ToolCall("call-1-1", "read_file", {"path": "notes.txt"}),)
    assert first.finish_reason == "tool_calls"
    assert first.reasoning == "I should look at the file first."
    turns: list[dict[str, Any]] = [
        *user("read my notes"),
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "call-1-1", "content": "Meeting at 12"},
    ]
    second = asyncio.run(model.complete(turns, context=CallContext("files/1", 1)))
    assert second.text == "There is a meeting at noon."
    assert second.usage == Usage(120, 8, requests=1)
    assert ask(model, task="other", reference="42").text == "42"


def test_reference_answers_the_reference_and_only_that() -> None:
    model = ScriptedModel("reference")
    assert ask(model, reference="").text == ""
    assert ask(model, reference="x = 1").text == "x = 1"
    missing = fault(model)
    assert (missing.fault_code, missing.permanent) == ("no_reference", True)
    assert missing.cause is Cause.MODEL_PROVIDER


def test_no_rule_is_a_permanent_fault(tmp_path: Path) -> None:
    model = scripted(tmp_path, "version: 1\nrules: [{when: {task: a}, reply: x}]\n")
    missing = fault(model, task="b")
    assert (missing.fault_code, missing.permanent) == ("no_rule", True)


def test_uses_are_counted_per_attempt_task_or_file(tmp_path: Path) -> None:
    text = "version: 1\nrules: [{{per: {per}, replies: [one, two]}}]\ndefault: spent\n"
    calls = [("a", 1), ("a", 1), ("a", 1), ("a", 2), ("b", 1)]
    seen = {}
    for per in ("attempt", "task", "file"):
        model = scripted(tmp_path, text.format(per=per))
        seen[per] = [ask(model, task=task, attempt=attempt).text for task, attempt in calls]
    assert seen == {
        "attempt": ["one", "two", "spent", "one", "one"],
        "task": ["one", "two", "spent", "spent", "one"],
        "file": ["one", "two", "spent", "spent", "spent"],
    }


def test_an_anonymous_caller_is_told_apart_by_its_opening() -> None:
    script = Script(read("version: 1\nrules: [{times: 1, reply: first}]\ndefault: later\n"))

    def choose(*texts: str) -> str | None:
        roles = ["user", "assistant"]
        messages = [{"role": roles[n % 2], "content": t} for n, t in enumerate(texts)]
        chosen = script.choose(Ask(messages))
        return chosen.reply.text if chosen else None

    assert choose("hello") == "first"
    assert choose("hello") == "later"
    assert choose("hello", "answer", "next") == "later"
    assert choose("bye") == "first"
    assert script.uses_by_rule == {"rule-1": 2, "default": 2}


def test_rules_keep_their_order_whatever_finds_them() -> None:
    script = Script(
        read(
            "version: 1\nrules:\n"
            "  - {name: glob, when: {task: 'a/[12]'}, reply: glob}\n"
            "  - {name: exact, when: {task: a/1}, reply: exact}\n"
            "  - {name: said, when: {message_is: ' hi '}, reply: said}\n"
            "  - {name: other, when: {task: a/3, message: 'h.$'}, reply: other}\n"
            "  - {name: last, reply: last}\n"
        )
    )

    def chosen(task: str | None, text: str) -> str:
        found = script.choose(Ask(user(text), task))
        assert found is not None
        return found.rule

    assert chosen("a/1", "hi") == "glob"
    assert chosen("a/3", "hi\n") == "said"
    assert chosen("a/3", "ho") == "other"
    assert chosen("A/3", "ho") == "last"
    assert chosen(None, "hi") == "said"
    assert chosen(None, "") == "last"


def test_ten_thousand_literal_rules_cost_no_more_than_one() -> None:
    rules = "".join(f"  - {{when: {{message_is: q{n}}}, reply: a{n}}}\n" for n in range(10_000))
    script = Script(read("version: 1\nrules:\n" + rules))
    compared = 0

    class Counting(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

        def strip(self, chars: str | None = None, /) -> "Counting":
            return self

    last = Ask(user("q9999"))
    last.__dict__["last_message"] = Counting("q9999")
    chosen = script.choose(last)
    assert chosen is not None
    assert chosen.reply.text == "a9999"
    assert compared <= 2


@pytest.mark.parametrize(
    ("fault_text", "code", "permanent"),
    [
        ("500", "server_error", False),
        ("{status: 400, code: context_length_exceeded}", "context_exceeded", True),
        ("401", "authentication", True),
        ("reset", "connection", False),
        ("html", "malformed", False),
        ("malformed", "malformed", False),
        ("empty_choices", "malformed", False),
        ("no_content", "malformed", False),
        ("cut", "truncated", False),
        ("endless", "too_large", True),
    ],
)
def test_faults_are_those_of_the_http_adapter(
    tmp_path: Path, fault_text: str, code: str, permanent: bool
) -> None:
    model = scripted(tmp_path, f"version: 1\ndefault: {{fault: {fault_text}}}\n")
    found = fault(model)
    assert (found.fault_code, found.permanent) == (code, permanent)
    assert "1 request sent" in str(found)


def test_hang_waits_until_cancelled(tmp_path: Path) -> None:
    model = scripted(tmp_path, "version: 1\ndefault: {fault: hang}\n")

    async def main() -> bool:
        task = asyncio.ensure_future(model.complete(user("?"), context=CallContext("t", 1)))
        for _ in range(10):
            await asyncio.sleep(0)
        waiting = not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return waiting

    assert asyncio.run(main())


def test_tool_arguments_written_as_text_are_parsed_strictly(tmp_path: Path) -> None:
    text = "version: 1\ndefault: {{tool_calls: [{{name: f, arguments: '{args}'}}]}}\n"
    assert ask(scripted(tmp_path, text.format(args=""))).tool_calls[0].arguments == {}
    for broken in ('{"a":', "[1]", '{"a":1,"a":2}'):
        assert fault(scripted(tmp_path, text.format(args=broken))).fault_code == "malformed"


def test_settings_name_the_rules_and_parameters(tmp_path: Path) -> None:
    first = scripted(tmp_path, "version: 1\ndefault: a\n").settings()
    second = scripted(tmp_path, "version: 1\ndefault: b\n").settings()
    assert first["rules"] != second["rules"]
    assert ScriptedModel("reference", Sampling(temperature=0.5)).settings() == {
        "adapter": "scripted",
        "version": "1",
        "name": "reference",
        "parameters": {"temperature": 0.5},
    }


def test_usage_is_estimated_from_bytes() -> None:
    reply = ask(ScriptedModel("reference"), text="12345", reference="ééé")
    assert reply.usage == Usage(input_tokens=2, output_tokens=2, requests=1)


def test_adapters_can_be_made_without_a_name_to_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert ScriptedModel("").requirements() == []
    assert OpenAIModel("").requirements() == []
