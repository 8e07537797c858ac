"""Imports go downwards only, and packages on one floor do not see each other."""

import ast
import sys

import pytest
from tests.architecture.source import Import, Module, imports, known_names, modules, parse

FLOORS = {
    "kernel": 0,
    "store": 1,
    "trajectory": 1,
    "wire": 1,
    "client": 2,
    "environments": 2,
    "models": 2,
    "agent": 3,
    "evals": 3,
    "judging": 3,
    "analyzers": 4,
    "benchmarks": 4,
    "harnesses": 4,
    "service": 5,
    "campaigns": 6,
    "api": 7,
    "web": 7,
    "cli": 8,
}
EXEMPT = {"proctor", "proctor.__main__"}
SHIPPED_FOR_TESTS = "testing"

PURE = ("proctor.kernel.", "proctor.agent.core.")

VALUES = "msgspec"
"""What the values of the agent's core are made of (decision 0012)."""

# What a room that does no input or output has no use for. (asyncio: the system clock sleeps.)
INPUT_OUTPUT = {
    "http", "io", "mmap", "multiprocessing", "os", "pathlib", "select", "selectors", "shutil",
    "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "urllib",
}  # fmt: skip


def upward(found: tuple[Module, ...]) -> list[str]:
    """Every import that breaks the rule of the floors, as a line of text."""
    known = known_names(found)
    wrong = []
    for module in found:
        if module.name in EXEMPT or module.room == SHIPPED_FOR_TESTS:
            continue
        for item in imports(module, known):
            if reason := _breaks(module, item):
                wrong.append(f"{item}: {reason}")
    return wrong


def _breaks(module: Module, item: Import) -> str | None:
    parts = item.target.split(".")
    if parts[0] != "proctor":
        return None
    if len(parts) == 1:
        return None if _takes_version_only(module, item) else "the root re-exports every floor"
    there = parts[1]
    if there == module.room:
        return None
    if there == SHIPPED_FOR_TESTS:
        return "nothing in src uses proctor.testing"
    if there not in FLOORS:
        return f"{there} has no floor"
    mine, theirs = FLOORS[module.room], FLOORS[there]
    if theirs < mine:
        return None
    return "same floor" if theirs == mine else f"floor {theirs} from floor {mine}"


def _takes_version_only(module: Module, item: Import) -> bool:
    if item.name:
        return item.name == "__version__"
    return all(
        node.attr == "__version__"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "proctor"
    )


def cycles(found: tuple[Module, ...]) -> list[list[str]]:
    """Groups of modules that import each other, directly or round a corner (Tarjan)."""
    known = known_names(found)
    graph = {
        m.name: {i.target for i in imports(m, known) if i.target in known and i.target != m.name}
        for m in found
        if m.name not in EXEMPT
    }
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            at = stack.index(name)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                groups.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return groups


def test_every_room_has_a_floor():
    rooms = {m.room for m in modules()} - {"", "__main__", SHIPPED_FOR_TESTS}
    assert rooms <= set(FLOORS)


def test_imports_go_downwards_only():
    assert upward(modules()) == []


def test_no_module_is_in_an_import_cycle():
    assert cycles(modules()) == []


def test_pure_rooms_need_only_the_standard_library_and_values_and_do_no_input_or_output():
    known = known_names(modules())
    wrong = []
    for module in (m for m in modules() if f"{m.name}.".startswith(PURE)):
        for item in imports(module, known):
            top = item.target.split(".")[0]
            if top == VALUES and module.name.startswith("proctor.agent.core."):
                continue
            if top != "proctor" and (top not in sys.stdlib_module_names or top in INPUT_OUTPUT):
                wrong.append(str(item))
    assert wrong == []


def test_the_core_of_the_agent_does_not_know_its_shell():
    known = known_names(modules())
    core = [m for m in modules() if m.name.startswith("proctor.agent.core.")]
    seen = {i.target for m in core for i in imports(m, known) if i.target.startswith("proctor.")}
    assert core
    assert {
        name for name in seen if not f"{name}.".startswith((*PURE, "proctor.store.journal.values"))
    } == set()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("proctor.kernel.a", "import proctor.store.files"),
        ("proctor.kernel.a", "def f():\n    from proctor.evals import request"),
        ("proctor.kernel.a", "if TYPE_CHECKING:\n    from proctor.cli.app import main"),
        ("proctor.kernel.a", "from ..store import files"),
        ("proctor.kernel.a", "import_module('proctor.evals.api')"),
        ("proctor.benchmarks.a", "from proctor.harnesses import nop"),
        ("proctor.evals.a", "from proctor.testing import faults"),
        ("proctor.evals.a", "from proctor import Benchmark"),
        ("proctor.evals.a", "import proctor\nx = proctor.__version__\ny = proctor.Benchmark"),
        ("proctor.evals.a", "from proctor.cellar import wine"),
    ],
)
def test_a_wrong_import_is_seen(name, text):
    assert len(upward((parse(name, text),))) == 1


def test_right_imports_are_not_reported():
    text = (
        "from proctor import __version__\nimport json\nfrom . import b\nimport proctor.kernel.ids"
    )
    assert upward((parse("proctor.evals.a", text), parse("proctor.evals.b", ""))) == []


def test_a_cycle_is_seen():
    a = parse("proctor.evals.a", "from proctor.evals import b")
    b = parse("proctor.evals.b", "def f():\n    import proctor.evals.c")
    c = parse("proctor.evals.c", "from .a import x")
    assert cycles((a, b, c)) == [["proctor.evals.a", "proctor.evals.b", "proctor.evals.c"]]
    assert cycles((a, b)) == []
