"""One case of bench/noop.py: python -m bench.noop_case TASKS CONCURRENCY MODE REPORT

`--loop` watches the event loop (which costs CPU itself); `--syncs` counts syncs in Python.
"""

import argparse
import asyncio
import contextlib
from pathlib import Path
from typing import Any

from bench.own import Span, count_syncs, report

MODEL_RULES = 'version: 1\ndefault: {text: "Nothing."}\n'
"""What the scripted model answers in mode `model`; bench/noop_work.py expects it."""


async def _run(args: argparse.Namespace) -> dict[str, Any]:
    import proctor
    from bench.noop_work import request

    done = await proctor.arun(request(args.tasks, args.concurrency, args.mode, "results"))
    value = done.metrics.primary.value
    if done.status != "completed" or value != 1.0 or done.counts.normal != args.tasks:
        raise SystemExit(f"the run went wrong: {done.status}, {done.counts}, {value}")
    return {}


async def _watched(args: argparse.Namespace) -> dict[str, Any]:
    from bench.loop import CallbackProbe, CollectorProbe, LagSampler

    probe, collector, sampler = CallbackProbe(), CollectorProbe(), LagSampler()
    probe.install()
    collector.install()
    sampling = asyncio.ensure_future(sampler.run())
    await _run(args)
    sampling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sampling
    return {
        "lag_ms": sampler.to_json(),
        "callbacks": probe.to_json(),
        "collector": collector.to_json(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tasks", type=int)
    parser.add_argument("concurrency", type=int)
    parser.add_argument("mode", choices=["reuse", "none", "model"])
    parser.add_argument("report")
    parser.add_argument("--loop", action="store_true")
    parser.add_argument("--syncs", action="store_true")
    args = parser.parse_args()
    if args.mode == "model":
        Path("rules.yaml").write_text(MODEL_RULES, "utf-8")
    syncs = count_syncs() if args.syncs else None
    span = Span()
    from proctor.evals.loop import new_loop

    with asyncio.Runner(loop_factory=new_loop) as runner:  # as `proctor run` does
        found = runner.run(_watched(args) if args.loop else _run(args))
    found.update(span.end())
    if syncs is not None:
        found["syncs"] = syncs()
    report(args.report, found)


if __name__ == "__main__":
    main()
