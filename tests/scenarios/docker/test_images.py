"""Images: built once from a Dockerfile, named, missing, and refused by a registry."""

import asyncio
import http.server
import threading
from contextlib import contextmanager

import pytest
from tests.engines import IMAGE

from proctor.environments.contract import EnvironmentSpec
from proctor.environments.docker.engine import Engine, EngineError
from proctor.environments.docker.images import Images
from proctor.kernel.errors import EnvironmentFault

DOCKERFILE = """\
FROM {image}
ENV GREETING="two words"
WORKDIR /srv/place
COPY . /srv/place
RUN echo made > made.txt && rm -f Dockerfile
USER worker
"""


@pytest.fixture
def builds(place, monkeypatch):
    """The names of the images that were built; they go at the end."""
    names = []
    plain = Images._build

    async def build(self, stream, size, name, digest):
        names.append(name)
        await plain(self, stream, size, name, digest)

    monkeypatch.setattr(Images, "_build", build)
    yield names
    asyncio.run(unmake(place, set(names)))


@pytest.fixture
def context(builds, tmp_path):
    """A build context that no other test has."""
    folder = tmp_path / "environment"
    (folder / "inner").mkdir(parents=True)
    (folder / "Dockerfile").write_text(DOCKERFILE.format(image=IMAGE), "utf-8")
    (folder / ".dockerignore").write_text("*.secret\n!inner/told.secret\n", "utf-8")
    (folder / "inner/given.txt").write_text(f"given to {tmp_path}", "utf-8")
    (folder / "inner/told.secret").write_text("told", "utf-8")
    (folder / "key.secret").write_text("hidden", "utf-8")
    return folder


async def unmake(place, names):
    engine = Engine(place.environment().endpoint())
    try:
        for name in names:
            try:
                await engine.done("DELETE", f"/images/{name}", {"force": "1"})
            except EngineError as error:  # the build failed
                if error.status != 404:
                    raise
    finally:
        engine.close()


@pytest.mark.every_engine
def test_a_dockerfile_is_built_once_and_decides(place, context, builds):
    spec = EnvironmentSpec(
        build=("RUN echo",), context=str(context), copies=((str(context), "/nowhere"),)
    )

    async def case(session):
        assert session.paths.workspace == "/srv/place"
        await session.write("mine.txt", b"mine")
        listed = await session.exec("pwd; id -u; echo $GREETING; cat made.txt; find . -type f")
        owner = await session.exec("stat -c %u mine.txt; ls /nowhere")
        assert owner.stdout == "1000\n"
        return listed.stdout

    first = place.run(case, spec, image=None)
    head, files = first.splitlines()[:4], set(first.splitlines()[4:])
    assert head == ["/srv/place", "1000", "two words", "made"]
    assert files - {"./.dockerignore"} == {
        "./made.txt", "./mine.txt", "./inner/given.txt", "./inner/told.secret",
    }  # fmt: skip
    assert len(builds) == 1
    assert place.run(case, spec, image=None) == first
    assert len(builds) == 1
    (context / "inner/given.txt").write_text("changed", "utf-8")
    place.run(case, spec, image=None)
    assert len(set(builds)) == 2


def test_sessions_that_need_the_same_build_wait_for_one(place, context, builds):
    spec = EnvironmentSpec(context=str(context))

    async def both():
        environment = place.environment(image=None)
        sessions = await asyncio.gather(*(environment.open(spec, {}) for _ in range(3)))
        for session in sessions:
            await session.close()

    asyncio.run(both())
    assert len(builds) == 1


def test_a_build_that_fails_says_why(place, context):
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo the reason; exit 7\n", "utf-8")
    with pytest.raises(EnvironmentFault) as raised:
        place.run(opened, EnvironmentSpec(context=str(context)), image=None)
    assert raised.value.fault_code == "image_build"
    assert "the reason" in str(raised.value)
    assert "7" in str(raised.value)


def test_one_image_in_place_of_the_tasks_own(place, context):
    spec = EnvironmentSpec(
        build=("FROM python:3", "RUN pip install x"),
        context=str(context),
        workdir="/task",
        copies=((str(context / "inner"), "/task"),),
    )
    environment = place.environment()
    (notice,) = environment.notices(spec)
    assert notice[0] == "image_not_built"
    assert "RUN pip install x" in notice[1]

    async def case(session):
        return (await session.exec("pwd; ls")).stdout.split()

    assert place.run(case, spec) == ["/task", "given.txt", "told.secret"]


async def opened(session):
    """Nothing but to open."""


def test_an_image_that_is_not_there(place):
    with pytest.raises(EnvironmentFault) as raised:
        place.run(opened, image="localhost/proctor-no-such-image:1", pull="never")
    assert (raised.value.fault_code, raised.value.permanent) == ("image_missing", True)
    with pytest.raises(EnvironmentFault) as raised:
        place.run(opened, image="localhost:1/proctor-no-such-image:1")
    assert raised.value.fault_code == "image_pull"
    assert not raised.value.permanent


class Refusing(http.server.BaseHTTPRequestHandler):
    """A registry that wants a login, or knows no image."""

    def do_GET(self):
        known = self.path == "/v2/"
        status = self.server.status if not known or self.server.status == 401 else 200
        body = b'{"errors":[{"code":"%s","message":"%s"}]}' % self.server.words
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="private"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name is given

    def log_message(self, *_):
        """Quiet."""


@contextmanager
def registry(status, *words):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        server.status, server.words = status, words
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (401, (b"UNAUTHORIZED", b"authentication required"), "image_auth"),
        (404, (b"MANIFEST_UNKNOWN", b"manifest unknown"), "image_missing"),
    ],
)
def test_what_a_registry_refuses_is_told_apart(place, status, words, code):
    if "podman" in place.address:  # it speaks TLS only, and so does not get that far
        code, permanent = "image_pull", False
    else:
        permanent = True
    with registry(status, *words) as where, pytest.raises(EnvironmentFault) as raised:
        place.run(opened, image=f"{where}/private/image:1")
    assert (raised.value.fault_code, raised.value.permanent) == (code, permanent), raised.value


def test_an_image_without_a_shell_cannot_start(place, builds, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY note /note\n", "utf-8")
    (tmp_path / "note").write_text(str(tmp_path), "utf-8")
    with pytest.raises(EnvironmentFault) as raised:
        place.run(opened, EnvironmentSpec(context=str(tmp_path)), image=None)
    assert raised.value.fault_code == "cannot_start"


def test_the_engine_error_has_its_words(place):
    async def asked():
        engine = Engine(place.environment().endpoint())
        try:
            await engine.call("GET", "/images/localhost/none:1/json")
        finally:
            engine.close()

    with pytest.raises(EngineError) as raised:
        asyncio.run(asked())
    assert raised.value.status == 404
    assert "none" in raised.value.message
