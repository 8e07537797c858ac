"""What the tests of launches share."""

from importlib.metadata import EntryPoint
from typing import Any

import pytest
from tests.scenarios.launches.process import Events, Proctor
from tests.scenarios.launches.reusing import Quizzes, Warm
from tests.scenarios.runtime.plugins import register

from proctor.evals import registry


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


@pytest.fixture
def adapter(monkeypatch):
    """`adapter(Class)`: a model adapter under its id, as an installed plug-in has it."""

    def add(component: type[Any]) -> str:
        point = EntryPoint(component.id, register(component), "proctor.models")
        monkeypatch.setitem(registry._registered("models"), component.id, point)
        return str(component.id)

    return add


@pytest.fixture
def quizzes(tmp_path, adapter):
    adapter(Warm)
    return Quizzes(tmp_path)
