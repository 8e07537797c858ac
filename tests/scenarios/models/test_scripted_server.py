"""The scripted server: what it receives, counts and holds."""

import asyncio
import json
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from proctor.models.contract import CallContext
from proctor.models.http.client import Bounds, HttpClient, Request
from proctor.models.http.endpoint import Endpoint
from proctor.models.openai import OpenAIModel, OpenAIOptions
from proctor.models.scripted.rules import read
from proctor.models.scripted.server import ScriptedServer
from proctor.testing.clock import FakeClock


async def fetch(base_url: str, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    endpoint = Endpoint.parse(base_url.removesuffix("/v1"))
    client = HttpClient(endpoint, Bounds())
    headers = [(b"Host", endpoint.authority.encode())]
    async with client.request(Request(method, path, headers, lambda: body)) as response:
        found = response.status, json.loads(await response.read())
    await client.close()
    return found


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_rules_by_task_and_attempt_reach_an_identified_caller() -> None:
    text = (
        "version: 1\nrules:\n"
        "  - {name: odd, when: {task: 'sums/*', attempt: [1, 3]}, reply: odd}\n"
        "  - {name: rest, when: {task: 'Ü/ä b'}, reply: unicode}\n"
        "default: unknown\n"
    )

    async def main() -> None:
        async with ScriptedServer(read(text)) as server:
            named = OpenAIModel("m", OpenAIOptions(base_url=server.base_url, identify_calls=True))
            anonymous = OpenAIModel("m", OpenAIOptions(base_url=server.base_url))
            seen = []
            for model in (named, anonymous):
                for task, attempt in (("sums/1", 1), ("sums/1", 2), ("sums/2", 3), ("Ü/ä b", 1)):
                    reply = await model.complete(user("?"), context=CallContext(task, attempt))
                    seen.append(reply.text)
                await model.close()
            assert seen == ["odd", "unknown", "odd", "unicode"] + ["unknown"] * 4
            assert server.stats()["rules"] == {"odd": 2, "rest": 1, "default": 5}

    asyncio.run(main())


def test_the_request_carries_the_parameters_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-1234567")
    seen: list[tuple[dict[str, Any], dict[str, str]]] = []

    async def main() -> None:
        async with ScriptedServer(read("version: 1\ndefault: x\n")) as server:
            handle = server._http._handler

            async def spy(incoming: Any, responder: Any) -> None:
                seen.append((json.loads(incoming.body), dict(incoming.headers)))
                await handle(incoming, responder)

            server._http._handler = spy
            options = OpenAIOptions(
                base_url=server.base_url,
                api_key_env="SOME_KEY",
                temperature=0.5,
                max_tokens=9,
                seed=1,
                extra_body={"top_k": 3, "min_p": None},
                stream=True,
            )
            model = OpenAIModel("org/model:v1", options)
            await model.complete(user("é"), context=CallContext("t", 1), seed=None, top_p=0.9)
            await model.close()

    asyncio.run(main())
    body, headers = seen[0]
    assert body == {
        "model": "org/model:v1",
        "messages": user("é"),
        "temperature": 0.5,
        "max_tokens": 9,
        "top_k": 3,
        "top_p": 0.9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert headers["authorization"] == "Bearer sk-1234567"
    assert "accept-encoding" not in headers
    assert not any(name.startswith("x-proctor") for name in headers)


def test_cost_comes_from_the_price_table() -> None:
    async def main() -> Decimal | None:
        answer = "{text: x, usage: {input_tokens: 1000, output_tokens: 10}}"
        async with ScriptedServer(read(f"version: 1\ndefault: {answer}\n")) as server:
            options = OpenAIOptions.model_validate(
                {
                    "base_url": server.base_url,
                    "prices": {"input_per_mtok": 0.15, "output_per_mtok": "0.6"},
                }
            )
            model = OpenAIModel("m", options)
            reply = await model.complete(user("?"), context=CallContext("t", 1))
            await model.close()
            return reply.usage.cost_usd

    assert asyncio.run(main()) == Decimal("0.000156")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON"),
        (b"[]", "needs a model"),
        (b'{"model": 5}', "needs a model"),
        (b'{"model": "m"}', "needs messages"),
        (b'{"model": "m", "messages": []}', "needs messages"),
        (b'{"model": "m", "messages": [{"content": "x"}]}', "needs a role"),
        (b'{"model": "m", "messages": [{"role": "user"}], "stream": "yes"}', "stream must be"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "?"}]}', "no rule holds"),
    ],
)
def test_bad_requests_are_refused_as_an_endpoint_would(body: bytes, reason: str) -> None:
    async def main() -> None:
        rules = read("version: 1\nrules: [{when: {message: never}, reply: x}]\n")
        async with ScriptedServer(rules) as server:
            status, answer = await fetch(server.base_url, "POST", "/v1/chat/completions", body)
            assert (status, reason in answer["error"]["message"]) == (400, True), answer
            assert server.stats()["statuses"] == {"400": 1}
            assert (await fetch(server.base_url, "GET", "/v1/chat/completions"))[0] == 404
            assert (await fetch(server.base_url, "POST", "/v1/embeddings", b"{}"))[0] == 404
            assert server.requests == 1

    asyncio.run(main())


def test_a_reference_is_not_known_over_http() -> None:
    async def main() -> None:
        async with ScriptedServer(read("version: 1\ndefault: {text_from: reference}\n")) as server:
            body = json.dumps({"model": "m", "messages": user("?")}).encode()
            status, answer = await fetch(server.base_url, "POST", "/v1/chat/completions", body)
            assert (status, answer["error"]["code"]) == (400, "no_reference")

    asyncio.run(main())


def test_five_hundred_calls_wait_at_once_and_their_connections_serve_again() -> None:
    async def main() -> None:
        rules = read(
            'version: 1\nrules: [{when: {message: slow}, reply: {text: "42", delay_s: 60}}]\n'
            "default: {text_from: last_message}\n"
        )
        clock = FakeClock()
        async with ScriptedServer(rules, clock=clock) as server:
            model = OpenAIModel("m", OpenAIOptions(base_url=server.base_url, max_retries=0))

            async def ask(text: str, number: int) -> str:
                context = CallContext(f"t{number}", 1)
                return (await model.complete(user(f"{text} {number}"), context=context)).text

            slow = [asyncio.ensure_future(ask("slow", n)) for n in range(500)]
            await clock.asleep(500)
            assert (server.waiting, server.stats()["connections_open"]) == (500, 500)
            clock.advance(60)
            assert await asyncio.gather(*slow) == ["42"] * 500
            quick = await asyncio.gather(*(ask("quick", n) for n in range(500)))
            assert quick == [f"quick {n}" for n in range(500)]
            stats = server.stats()
            assert (stats["requests"], stats["statuses"]) == (1000, {"200": 1000})
            assert stats["connections_opened"] == 500
            await model.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def start(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "proctor.models.scripted.server", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_as_a_program(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("version: 1\ndefault: {text_from: last_message}\n")

    async def use(base_url: str) -> None:
        model = OpenAIModel("m", OpenAIOptions(base_url=base_url))
        reply = await model.complete(user("hello"), context=CallContext("t", 1))
        assert reply.text == "hello"
        status, stats = await fetch(base_url, "GET", "/_proctor/stats")
        assert (status, stats["requests"], stats["rules"]) == (200, 1, {"default": 1})
        await model.close()

    with start(str(path)) as server:
        assert server.stdout is not None
        try:
            asyncio.run(use(server.stdout.readline().strip()))
        finally:
            server.send_signal(number)
        _, errors = server.communicate(timeout=20)
    assert (server.returncode, errors) == (0, "")


def test_a_bad_rule_file_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("version: 1\ndefalt: x\n")
    with start(str(path)) as server:
        _, errors = server.communicate(timeout=20)
    assert server.returncode == 2
    assert f"{path}:2:1: unknown key 'defalt'; did you mean default?" in errors
    assert "Traceback" not in errors
