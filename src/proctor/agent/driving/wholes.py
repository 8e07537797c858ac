"""Texts that are too long for the log are kept whole beside it."""

from typing import Any

from proctor.agent.driving.desk import Desk
from proctor.kernel.faults import fault_point


async def kept(desk: Desk, whole: str | None) -> dict[str, Any]:
    """Keep a text as a blob; the entries of the evidence that name it. Nothing for None."""
    if whole is None:
        return {}
    data = desk.setup.redactor.text(whole).encode("utf-8", "surrogatepass")
    fault_point("agent.blob.begin")
    digest = await desk.recorder.journal.put_blob(data, "text/plain")
    fault_point("agent.blob.kept")
    return {"output": digest, "output_bytes": len(data)}
