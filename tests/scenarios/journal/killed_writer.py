"""A process that writes to a journal, says what was acknowledged, and is killed on the way.

    python -m tests.scenarios.journal.killed_writer JSON

The document: `where` (path or URL), `schema` (PostgreSQL), `at` and `hit` (the fault point; without
`at` it runs to its end and says which points it passed). Each acknowledged call is one line on
standard output, flushed before the next call.
"""

import asyncio
import json
import sys

from proctor.kernel import faults
from proctor.store.journal.contract import Durability, Row, Snapshot
from proctor.store.leases import owner_name
from proctor.testing.conformance.journal_base import (
    NOW,
    NewRun,
    action,
    event,
    message,
    state_of,
    version_of,
)
from proctor.testing.faults import FaultPlan, injected

BLOB = b"output " * 50_000
STEPS = 6


def acknowledged(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


async def write(journal) -> None:
    """Every kind of call, some of them several times."""
    owner = owner_name()
    for name in ("parent", "child"):
        version_of(await journal.create_run(NewRun(name, NOW), [event("0")], []))
        acknowledged("event", name, 1)
        lease = await journal.claim(name, owner, 3600)
        acknowledged("fence", name, lease.fence)
    for step in range(1, STEPS):
        state = "running" if step % 2 else "waiting"
        rows = [state_of("x", state)] if step > 1 else [action("x", state)]
        durability = Durability.BARRIER if step % 2 else Durability.LAZY
        sent = [message("parent", f"from-child-{step}")]
        version = version_of(
            await journal.append(
                "child", step, lease.fence, [event(f"{step}")], rows, durability, sent
            )
        )
        acknowledged("event", "child", version)
        acknowledged("message", f"from-child-{step}")
        await journal.inbox_add(message("parent", f"from-outside-{step}"))
        acknowledged("message", f"from-outside-{step}")
        if step in (2, 4):
            await journal.save_snapshot("child", lease.fence, Snapshot(version, "1", {"at": step}))
            acknowledged("snapshot", version)
    digest = await journal.put_blob(BLOB)
    acknowledged("blob", digest)
    rows = [Row("run", {}, {"state": "done"})]
    version = version_of(
        await journal.append("child", STEPS, lease.fence, [event(f"{STEPS}")], rows)
    )
    acknowledged("event", "child", version)
    await journal.release(lease)
    acknowledged("released", "child")


def open_it(given, **options):
    if given.get("schema"):
        from proctor.store.journal.postgresql import open_postgresql

        return open_postgresql(given["where"], schema=given["schema"], **options)
    from proctor.store.journal.sqlite import open_sqlite

    return open_sqlite(given["where"], **options)


async def run(given) -> None:
    async with open_it(given) as journal:
        await write(journal)


def main() -> None:
    given = json.loads(sys.argv[1])
    if given.get("at"):
        with injected(FaultPlan("kill", given["at"], given["hit"])):
            asyncio.run(run(given))
        return
    passed: dict[str, int] = {}

    def note(name: str) -> None:
        passed[name] = passed.get(name, 0) + 1

    faults.install(note)
    asyncio.run(run(given))
    acknowledged("passed", json.dumps(passed))


if __name__ == "__main__":
    main()
