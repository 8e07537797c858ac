"""Finding components by name, module and file; what is broken stays alone."""

import sys

import pytest

from proctor.evals import registry
from proctor.harnesses.nop import Nop
from proctor.kernel.errors import BrokenComponent, UnknownComponent

HARNESS = """
from proctor.harnesses.nop import Nop
LOADED = []
class Mine(Nop):
    id = "mine"
class NoId:
    pass
NotAClass = 3
def function(): return 1
"""


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(HARNESS)
    return path


def test_by_name_by_file_and_by_module(plugin):
    assert registry.load("harnesses", "nop") is Nop
    assert registry.load("harnesses", "proctor.harnesses.nop:Nop") is Nop
    mine = registry.load("harnesses", f"{plugin}:Mine")
    assert mine.id == "mine"
    assert registry.load("harnesses", f"{plugin}:Mine") is mine  # the file is loaded once
    assert registry.load_callable(f"{plugin}:function")() == 1


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path):
    found = []
    for folder in ("a", "b"):
        path = tmp_path / folder / "mine.py"
        path.parent.mkdir()
        path.write_text(HARNESS.replace('"mine"', f'"{folder}"'))
        found.append(registry.load("harnesses", f"{path}:Mine").id)
    assert found == ["a", "b"]


@pytest.mark.parametrize(
    ("ref", "message", "hint"),
    [
        ("nopp", "unknown harness 'nopp'", "did you mean nop?"),
        ("proctor.harnesses.nop:Nope", "has no Nope", "did you mean Nop?"),
        ("proctor.harnesses.nothing:Nop", "No module named", "give module:Class"),
        ("no_such_module_at_all:X", "No module named", "give module:Class"),
        ("none.py:Mine", "no such file: none.py", None),
    ],
)
def test_what_is_not_there(ref, message, hint):
    with pytest.raises(UnknownComponent, match=message) as caught:
        registry.load("harnesses", ref)
    assert hint is None or hint in caught.value.hint


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoId", "has no id"),
        ("NotAClass", "is not a class but int"),
        ("function", "is not a class but function"),
    ],
)
def test_what_is_no_component(plugin, name, message):
    with pytest.raises(BrokenComponent, match=message):
        registry.load("harnesses", f"{plugin}:{name}")


def test_a_class_that_leaves_methods_out_is_told_which(tmp_path):
    path = tmp_path / "half.py"
    path.write_text(
        "from proctor import Benchmark\nclass Half(Benchmark):\n    id = 'half'\n"
        "    def load_tasks(self): return []\n"
    )
    with pytest.raises(BrokenComponent, match="does not define: evaluate, metrics"):
        registry.load("benchmarks", f"{path}:Half")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('at import')", "fails to import: RuntimeError: at import"),
        ("import no_such_thing_at_all", "No module named"),
        ("def broken(:\n", "fails to import: SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_and_forgotten(tmp_path, code, message):
    path = tmp_path / "bad.py"
    path.write_text(code)
    before = set(sys.modules)
    with pytest.raises((BrokenComponent, UnknownComponent), match=message):
        registry.load("harnesses", f"{path}:X")
    assert [name for name in set(sys.modules) - before if "bad" in name] == []
    path.write_text(HARNESS)
    assert registry.load("harnesses", f"{path}:Mine").id == "mine"


@pytest.mark.parametrize("ref", ["function", "mine.py:LOADED"])
def test_what_is_no_callable(plugin, ref, monkeypatch):
    monkeypatch.chdir(plugin.parent)
    with pytest.raises((BrokenComponent, UnknownComponent)):
        registry.load_callable(ref)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_kind_can_be_listed(kind):
    listed = registry.listings(kind)
    assert [item.id for item in listed] == registry.names(kind)
    assert {item.status for item in listed} <= {"available", "unavailable"}
    assert all(item.summary for item in listed if item.status == "available")
