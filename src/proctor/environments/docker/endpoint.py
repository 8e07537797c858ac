"""Where the engine listens: DOCKER_HOST, or the usual sockets of docker and podman."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

_DOCKER_SOCKET = "/var/run/docker.sock"
_PODMAN_SOCKET = "/run/podman/podman.sock"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A unix socket (`path`), or a host and port."""

    path: str | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.path else f"tcp://{self.host}:{self.port}"


def endpoint(chosen: str | None = None, environ: Mapping[str, str] | None = None) -> Endpoint:
    """The engine's endpoint: `chosen`, else DOCKER_HOST, else the first usual socket there is.

    Raises ValueError saying what is wrong with the address.
    """
    variables = os.environ if environ is None else environ
    address = chosen or variables.get("DOCKER_HOST", "")
    if not address:
        path = next((p for p in _usual(variables) if _is_socket(p)), _DOCKER_SOCKET)
        return Endpoint(path)
    parts = urlsplit(address)
    if parts.scheme == "unix" and parts.path:
        return Endpoint(parts.path)
    if parts.scheme == "tcp" and parts.hostname:
        if variables.get("DOCKER_TLS_VERIFY"):
            raise ValueError(f"{address}: TLS is not supported; forward its unix socket by ssh -L")
        return Endpoint(None, parts.hostname, parts.port or 2375)
    raise ValueError(f"{address!r} is neither unix:///PATH nor tcp://HOST:PORT")


def _usual(variables: Mapping[str, str]) -> Iterator[str]:
    yield _DOCKER_SOCKET
    own = variables.get("XDG_RUNTIME_DIR")
    if own:
        yield f"{own}/docker.sock"
        yield f"{own}/podman/podman.sock"
    yield _PODMAN_SOCKET


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
