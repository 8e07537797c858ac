"""How much it costs to wait: many calls at once to a slow model, in one process.

    scripts/bench model_waiting [--calls 10000] [--delay 40] [--compare 1000]

A scripted server in another process answers each call after `--delay` seconds, so that all calls
wait at the same time. Each client runs in a process of its own. Printed for each: CPU seconds and
peak RSS of the client, its ramp (until the server has all calls), and the lag of its event loop
after the ramp: how much later than asked a 2 ms sleep ends, each sample weighted by the time it
stands for, and the part of it that is the loop's own CPU, which other load does not inflate. The
last lines repeat a smaller number of calls with this project's transport and with httpx (pool
without an upper limit), as ratios. `idle` is a process that did nothing but sample meanwhile: the
lag that the machine's other load alone causes.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.loop import LagSampler

PROMPT = "What is 6 times 7? " * 20
Ask = Callable[[int], Awaitable[None]]


def lags(sampler: LagSampler) -> dict[str, float]:
    """What a sampler saw, in ms."""
    return {f"lag_{name}_ms": round(value, 1) for name, value in sampler.to_json().items()}


async def arrived(server_url: str, calls: int) -> int:
    """Return when `calls` calls have arrived at the server: how many it held at once."""
    from proctor.models.http.client import Bounds, HttpClient, Request
    from proctor.models.http.endpoint import Endpoint

    endpoint = Endpoint.parse(server_url.removesuffix("/v1"))
    client = HttpClient(endpoint, Bounds())
    headers = [(b"Host", endpoint.authority.encode())]
    request = Request("GET", "/_proctor/stats", headers, lambda: b"")
    while True:
        async with client.request(request) as response:
            stats = json.loads(await response.read())
        if stats["requests"] >= calls:
            await client.close()
            return int(stats["most_waiting"])
        await asyncio.sleep(0.1)


async def measure(calls: int, url: str, ask: Ask) -> dict[str, Any]:
    """Run `calls` calls at once and measure this process."""
    started = time.perf_counter()
    tasks = [asyncio.ensure_future(ask(number)) for number in range(calls)]
    held = await arrived(url, calls)
    ramp_s = time.perf_counter() - started
    sampler = LagSampler()
    sampling = asyncio.ensure_future(sampler.run())
    await asyncio.gather(*tasks)
    sampling.cancel()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "calls": calls,
        "held_at_once": held,
        "ramp_s": round(ramp_s, 1),
        "wall_s": round(time.perf_counter() - started, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "rss_mb": round(usage.ru_maxrss / 1024),
        **lags(sampler),
    }


async def run_proctor(calls: int, url: str) -> dict[str, Any]:
    """This project's adapter."""
    from proctor.models.contract import CallContext
    from proctor.models.openai import OpenAIModel, OpenAIOptions

    model = OpenAIModel("scripted", OpenAIOptions(base_url=url, max_retries=0))

    async def ask(number: int) -> None:
        messages = [{"role": "user", "content": f"{PROMPT} ({number})"}]
        reply = await model.complete(messages, context=CallContext(f"t{number}", 1))
        assert reply.text == "42"

    found = await measure(calls, url, ask)
    await model.close()
    return found


async def run_httpx(calls: int, url: str) -> dict[str, Any]:
    """httpx with its own connection pool."""
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=None) as client:

        async def ask(number: int) -> None:
            content = f"{PROMPT} ({number})"
            body = {"model": "scripted", "messages": [{"role": "user", "content": content}]}
            response = await client.post(f"{url}/chat/completions", json=body)
            assert response.json()["choices"][0]["message"]["content"] == "42"

        return await measure(calls, url, ask)


async def run_idle() -> dict[str, Any]:
    """Nothing but the sampler, until stdin ends."""
    sampler = LagSampler()
    sampling = asyncio.ensure_future(sampler.run())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    sampling.cancel()
    return lags(sampler)


def client(name: str, calls: int, url: str) -> dict[str, Any]:
    """Measure one client in a process of its own, beside an idle one."""
    command = [
        sys.executable,
        "-m",
        "bench.model_waiting",
        "--calls",
        str(calls),
        "--url",
        url,
        "--client",
    ]
    with subprocess.Popen(
        [*command, "idle"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as idle:
        done = subprocess.run([*command, name], stdout=subprocess.PIPE, text=True, check=True)
        beside, _ = idle.communicate()
    found: dict[str, Any] = json.loads(done.stdout)
    show(name, found)
    show("idle", json.loads(beside))
    return found


def with_server(delay_s: float, work: Callable[[str], object]) -> None:
    """Run `work(base_url)` beside a scripted server that answers after `delay_s`."""
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.yaml"
        rules.write_text(f'version: 1\ndefault: {{text: "42", delay_s: {delay_s}}}\n')
        command = [sys.executable, "-m", "proctor.models.scripted.server", str(rules)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                work(server.stdout.readline().strip())
            finally:
                server.terminate()


def show(name: str, found: dict[str, Any]) -> None:
    """One line."""
    print(f"{name:<8}" + "  ".join(f"{key} {value}" for key, value in found.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=40.0, help="seconds until an answer")
    parser.add_argument("--compare", type=int, default=1_000, help="calls for the comparison")
    parser.add_argument("--client", choices=["proctor", "httpx", "idle"], help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        runs = {
            "proctor": lambda: run_proctor(args.calls, args.url),
            "httpx": lambda: run_httpx(args.calls, args.url),
            "idle": run_idle,
        }
        print(json.dumps(asyncio.run(runs[args.client]())))
        return
    with_server(args.delay, lambda url: client("proctor", args.calls, url))

    found: dict[str, dict[str, Any]] = {}
    for name in ("proctor", "httpx"):

        def run_one(url: str, name: str = name) -> None:
            found[name] = client(name, args.compare, url)

        with_server(min(args.delay, 15.0), run_one)
    for key in ("cpu_s", "rss_mb", "lag_p99_ms"):
        ratio = found["httpx"][key] / max(found["proctor"][key], 0.1)
        print(f"{key}: httpx / proctor = {ratio:.1f}")


if __name__ == "__main__":
    main()
