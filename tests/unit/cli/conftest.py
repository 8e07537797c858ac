"""The command line in this process, for tables of many cases."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from proctor.cli.app import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory, and no settings from outside."""
    import os

    for name in list(os.environ):
        if name.startswith(("PROCTOR_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def proctor(folder, capsys):
    """`proctor(*words)`: run the command line here and give its exit code and output."""

    def call(*words: str) -> Answer:
        code = main(list(words))
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call
