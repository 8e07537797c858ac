"""Where requests go: a checked base URL."""

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A base URL in parts. `path` has no slash at its end; `query` has no question mark."""

    scheme: str
    host: str
    port: int
    path: str = ""
    query: str = ""

    @classmethod
    def parse(cls, url: str) -> "Endpoint":
        """Check and split `url`. Raises ValueError with a reason in one line."""
        if any(ch.isspace() or not ch.isprintable() for ch in url):
            raise ValueError("a URL has no blanks")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"not a URL: {error}") from None
        if parts.scheme not in _PORTS:
            raise ValueError("a URL begins with http:// or https://")
        if not parts.hostname:
            raise ValueError("the URL has no host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("no user or password in the URL: name the key with api_key_env")
        if parts.fragment:
            raise ValueError("the URL has a fragment (#…)")
        return _endpoint(parts, port)

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Host and, unless it is the scheme's own, port, as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def target(self, suffix: str) -> str:
        """The request target of `suffix`, which begins with a slash."""
        return self.path + suffix + (f"?{self.query}" if self.query else "")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def _endpoint(parts: SplitResult, port: int | None) -> Endpoint:
    host = parts.hostname or ""
    try:
        host = host.encode("idna").decode("ascii") if not host.isascii() else host
        f"{parts.path}{parts.query}".encode("ascii")
    except UnicodeError:
        raise ValueError("the URL has characters that must be percent-encoded") from None
    if port == 0:
        raise ValueError("port 0 is not a port")
    default = port if port is not None else _PORTS[parts.scheme]
    return Endpoint(parts.scheme, host, default, parts.path.rstrip("/"), parts.query)
