"""Ten thousand attempts that wait for a slow model, in one process, through the whole runtime.

    scripts/bench waiting_attempts [--attempts 10000] [--delay 60]

A scripted server in another process answers each call after `--delay` seconds. One run of gsm8k
with harness `none` starts all attempts at once: each has its plan, its environment, its model
call, its durable records. Printed: CPU, peak RSS, and the lag of the event loop after the ramp
(see model_waiting), while the attempts wait and while they finish.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.loop import CollectorProbe, LagSampler
from bench.model_waiting import arrived, lags, show, with_server
from proctor.evals.loop import new_loop


async def measured_run(attempts: int, url: str, folder: Path) -> dict[str, Any]:
    """Run all attempts at once and measure this process."""
    from proctor.evals.api import arun

    rows = folder / "rows.jsonl"
    with rows.open("w", encoding="utf-8") as file:
        for number in range(attempts):
            row = {"question": f"What is 6 times 7? ({number})", "answer": "It is 42.\n#### 42"}
            file.write(json.dumps(row) + "\n")
    request = {
        "benchmark": {"id": "gsm8k", "data": str(rows)},
        "model": {"id": "openai:scripted", "base_url": url},
        "runtime": {"results_dir": str(folder / "results"), "task_concurrency": attempts},
    }
    started = time.perf_counter()
    running = asyncio.ensure_future(arun(request))
    held = await arrived(url, attempts)
    ramp_s = time.perf_counter() - started
    sampler, collector = LagSampler(), CollectorProbe()
    collector.install()
    sampling = asyncio.ensure_future(sampler.run())
    report = await running
    sampling.cancel()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    value = report.metrics.primary.value
    if (report.exit_code, value) != (0, 1.0):
        raise SystemExit(f"the run ended with {report.exit_code} and {value}: {report.issue_codes}")
    return {
        "attempts": attempts,
        "held_at_once": held,
        "ramp_s": round(ramp_s, 1),
        "wall_s": round(time.perf_counter() - started, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "rss_mb": round(usage.ru_maxrss / 1024),
        **{f"gc_{k}": v for k, v in collector.to_json().items()},
        **lags(sampler),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--attempts", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=60.0, help="seconds until an answer")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.url:
        with (
            tempfile.TemporaryDirectory() as folder,
            asyncio.Runner(loop_factory=new_loop) as runner,  # as `proctor run` does
        ):
            found = runner.run(measured_run(args.attempts, args.url, Path(folder)))
        print(json.dumps(found))
        return

    def work(url: str) -> None:
        own = ["--attempts", str(args.attempts), "--url", url]
        command = [sys.executable, "-m", "bench.waiting_attempts", *own]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        show("proctor", json.loads(done.stdout))

    with_server(args.delay, work)


if __name__ == "__main__":
    main()
