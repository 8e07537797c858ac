"""Names that say nothing, and habits that hide faults."""

import ast
import re

import pytest
from tests.architecture.source import Module, modules, parse

EMPTY_WORDS = {"utils", "util", "common", "manager", "managers", "helper", "helpers", "misc"}
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


GRADING_PROGRAMS = {
    "proctor.benchmarks.humaneval.grader.candidate",
    "proctor.benchmarks.table.scorers.python_grader",
}
"""Programs of their own process that run source text; the driver never runs them."""


def words(name: str) -> set[str]:
    """`TaskManager_v2` → {task, manager, v2}."""
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


def empty_names(module: Module) -> list[str]:
    found = [part for part in module.name.split(".") if words(part) & EMPTY_WORDS]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and words(node.name) & EMPTY_WORDS:
            found.append(f"{module.path}:{node.lineno} {node.name}")
    return found


def bad_habits(module: Module) -> list[str]:
    found = [
        f"{module.path}:{number} unfinished: {line.strip()}"
        for number, line in enumerate(module.text.split("\n"), 1)
        if UNFINISHED.search(line)
    ]
    for node in ast.walk(module.tree):
        reason = _habit(node)
        if reason and not (reason == "calls exec" and module.name in GRADING_PROGRAMS):
            found.append(f"{module.path}:{node.lineno} {reason}")
    return found


def unused_names(module: Module) -> list[str]:
    """Private names at the top of a module that nothing in it uses."""
    found = []
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        else:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [name.id for target in targets for name in ast.walk(target)
                     if isinstance(name, ast.Name)]  # fmt: skip
        private = [name for name in names if name.startswith("_") and not name.startswith("__")]
        found += [f"{module.path}: {name}" for name in private
                  if len(re.findall(rf"\b{name}\b", module.text)) < 2]  # fmt: skip
    return found


def _habit(node: ast.AST) -> str | None:
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        if called in ("print", "time.sleep", "sleep", "breakpoint", "eval", "exec"):
            return f"calls {called}"
    elif isinstance(node, ast.Raise) and node.exc is not None:
        if "NotImplementedError" in ast.unparse(node.exc):
            return "raises NotImplementedError"
    elif isinstance(node, ast.ExceptHandler):
        return _swallows(node)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        names = [a.name for a in node.names] + [getattr(node, "module", None) or ""]
        if {n.split(".")[0] for n in names} & FORBIDDEN_IMPORTS:
            return "imports a module that runs or trusts foreign bytes"
    return None


def _swallows(handler: ast.ExceptHandler) -> str | None:
    """A handler for everything that does nothing. Naming the error is saying why it may pass."""
    kind = ast.unparse(handler.type) if handler.type else "everything"
    silent = all(isinstance(statement, ast.Pass | ast.Continue) for statement in handler.body)
    if silent and kind in ("everything", "Exception", "BaseException"):
        return f"swallows {kind}"
    return None


def test_names_say_what_a_thing_is():
    assert [line for m in modules() for line in empty_names(m)] == []


def test_no_bad_habits():
    assert [line for m in modules() for line in bad_habits(m)] == []


def test_no_private_name_is_left_over():
    assert [line for m in modules() for line in unused_names(m)] == []


def test_a_private_name_that_is_left_over_is_seen():
    text = (
        "_USED, _LEFT = 1, 2\ndef _left(): ...\nclass _Kept: ...\nprint(_USED, _Kept)\n__all__ = []"
    )
    found = unused_names(parse("proctor.evals.a", text))
    assert found == ["made-up.py: _LEFT", "made-up.py: _left"]


@pytest.mark.parametrize(
    "text",
    [
        "print('x')",
        "def f():\n    time.sleep(1)",
        "raise NotImplementedError",
        "raise NotImplementedError('later')",
        "try:\n    f()\nexcept Exception:\n    pass",
        "for x in y:\n    try:\n        f()\n    except:\n        continue",
        "import pickle",
        "from pickle import loads",
        "x = 1  # " + "TO" + "DO: more",
    ],
)
def test_a_bad_habit_is_seen(text):
    assert len(bad_habits(parse("proctor.evals.a", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    f()\nexcept OSError:\n    pass",
        "try:\n    f()\nexcept Exception as e:\n    log(e)",
        "session.exec('x')",
        "await clock.sleep(1)",
    ],
)
def test_good_habits_are_not_reported(text):
    source = text if not text.startswith("await") else f"async def f():\n    {text}"
    assert bad_habits(parse("proctor.evals.a", source)) == []


def test_only_a_grading_program_runs_source_text():
    text = "exec(code, namespace)"
    assert len(bad_habits(parse("proctor.evals.a", text))) == 1
    for name in GRADING_PROGRAMS:
        assert bad_habits(parse(name, text)) == []
        assert name in {m.name for m in modules()}


def test_empty_names_are_seen():
    assert empty_names(parse("proctor.evals.run_utils", "class TaskManager: ...")) == [
        "run_utils",
        "made-up.py:1 TaskManager",
    ]
    assert empty_names(parse("proctor.evals.managed", "class Commonly: ...")) == []
