"""Base URLs."""

import pytest

from proctor.models.http.endpoint import Endpoint


@pytest.mark.parametrize(
    ("url", "shown", "authority", "target"),
    [
        ("https://h.example/v1", "https://h.example/v1", "h.example", "/v1/x"),
        ("https://h.example/v1/", "https://h.example/v1", "h.example", "/v1/x"),
        ("http://H.example", "http://h.example", "h.example", "/x"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", "127.0.0.1:8000", "/v1/x"),
        ("http://[::1]:8000", "http://[::1]:8000", "[::1]:8000", "/x"),
        ("https://h.example:443/a", "https://h.example/a", "h.example", "/a/x"),
        ("https://h/v1?api-version=2", "https://h/v1", "h", "/v1/x?api-version=2"),
        ("http://bücher.example/", "http://xn--bcher-kva.example", "xn--bcher-kva.example", "/x"),
    ],
)
def test_parts(url: str, shown: str, authority: str, target: str) -> None:
    endpoint = Endpoint.parse(url)
    assert (str(endpoint), endpoint.authority, endpoint.target("/x")) == (shown, authority, target)
    assert endpoint.secure == url.startswith("https")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "begins with http"),
        ("localhost:8000", "begins with http"),
        ("ftp://h", "begins with http"),
        ("http://", "no host"),
        ("http://h:0", "port 0"),
        ("http://h:99999", "not a URL"),
        ("http://h:x", "not a URL"),
        ("http://user:pw@h", "no user or password"),
        ("http://h/#x", "fragment"),
        ("http://h /v1", "no blanks"),
        ("http://h/v1\r\nX: y", "no blanks"),
        ("http://h/é", "percent-encoded"),
        ("http://[::1", "not a URL"),
    ],
)
def test_bad_urls(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Endpoint.parse(url)
