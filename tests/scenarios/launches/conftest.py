"""What the tests of launches share."""

from typing import Any

import pytest
from tests.scenarios.launches.process import Events, Proctor


@pytest.fixture
def events(tmp_path):
    pipe = Events(tmp_path / "events")
    yield pipe
    pipe.close()


@pytest.fixture
def start(tmp_path):
    """`start(*arguments)`: proctor in a process of its own, killed when the test ends."""
    started: list[Proctor] = []

    def begin(*arguments: str, **options: Any) -> Proctor:
        started.append(Proctor(tmp_path, arguments, **options))
        return started[-1]

    yield begin
    for proctor in started:
        if proctor.process.poll() is None:
            proctor.kill()
