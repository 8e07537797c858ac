"""What the engine can do: asked once, before anything runs."""

import os
import socket
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import h11

from proctor.environments.docker.endpoint import Endpoint
from proctor.kernel import jsontext

_TIMEOUT_S = 10.0
_READ_BYTES = 65_536
_ANSWER_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class Probed:
    """`enforced`: which wishes of a specification the engine binds. `here`: whether it seems to
    run on this machine. `facts`: for the record."""

    enforced: tuple[str, ...]
    here: bool
    facts: dict[str, Any] = field(hash=False)


def probed(endpoint: Endpoint) -> Probed | str:
    """What the engine can do, or why it cannot be used and what to do about it."""
    try:
        return _answered(endpoint)
    except (OSError, ValueError, h11.ProtocolError) as error:
        return (
            f"no engine answers at {endpoint} ({error}): start docker or podman's API service, "
            "or name its socket in DOCKER_HOST"
        )


@cache
def _answered(endpoint: Endpoint) -> Probed:
    data = _ask(endpoint, "/v1.40/info")
    enforced = {
        "memory_mb": data.get("MemoryLimit"),
        "cpus": data.get("CpuCfsQuota"),
        "pids": data.get("PidsLimit"),
    }
    machine = os.uname()
    names = (data.get("Name"), data.get("KernelVersion"))
    return Probed(
        tuple(name for name, binds in enforced.items() if binds),
        endpoint.path is not None and names == (machine.nodename, machine.release),
        {
            "engine": str(data.get("OperatingSystem", "")),
            "engine_version": str(data.get("ServerVersion", "")),
            "storage": str(data.get("Driver", "")),
            "cgroups": str(data.get("CgroupVersion", "")),
        },
    )


def _ask(endpoint: Endpoint, target: str) -> Any:
    """One GET over a connection of its own. Blocking, for at most some ten seconds."""
    http = h11.Connection(h11.CLIENT)
    with _connected(endpoint) as stream:
        headers = [("Host", "engine"), ("Connection", "close")]
        head = http.send(h11.Request(method="GET", target=target, headers=headers)) or b""
        stream.sendall(head + (http.send(h11.EndOfMessage()) or b""))
        body, status = bytearray(), 0
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(stream.recv(_READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data) and len(body) < _ANSWER_BYTES:
                body += event.data
            else:
                break
    if status != 200:
        raise ValueError(f"it answers with status {status}")
    return jsontext.loads(bytes(body))


def _connected(endpoint: Endpoint) -> socket.socket:
    if endpoint.path is None:
        return socket.create_connection((endpoint.host, endpoint.port), timeout=_TIMEOUT_S)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.settimeout(_TIMEOUT_S)
        stream.connect(endpoint.path)
    except BaseException:
        stream.close()
        raise
    return stream
