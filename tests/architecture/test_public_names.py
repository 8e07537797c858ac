"""What users import: sorted, complete, importable, cheap; plug-ins are what they say."""

import ast
import importlib
import subprocess
import sys
import tomllib

import pytest
from tests.architecture.source import ROOT, modules

import proctor

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ENTRY_POINTS = [
    pytest.param(name, target, id=f"{group}:{name}")
    for group, entries in PROJECT["entry-points"].items()
    for name, target in entries.items()
]
HEAVY = {
    "anthropic", "asyncio", "docker", "hashlib", "httpx", "inspect", "jinja2", "json", "openai",
    "pydantic", "rich", "sqlite3", "typer", "typing", "yaml",
}  # fmt: skip


def modules_after(code: str) -> set[str]:
    """The top-level modules that `code` adds to those of a bare interpreter."""
    script = (
        "import sys; before = set(sys.modules)\n"
        f"{code}\n"
        "sys.stdout.write('\\n' + ' '.join({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split("\n")[-1].split())


def test_public_names_are_sorted_and_there():
    assert proctor.__all__ == sorted(proctor.__all__)
    assert set(proctor.__all__) <= set(dir(proctor))
    for name in proctor.__all__:
        assert getattr(proctor, name).__name__ == name
        assert getattr(proctor, name).__doc__, f"{name} has no docstring"


def test_public_names_are_written_once_for_python_and_once_for_type_checkers():
    root = next(m for m in modules() if m.name == "proctor")
    guarded = next(n for n in root.tree.body if isinstance(n, ast.If))
    seen = [
        (alias.name, node.module)
        for node in guarded.body
        if isinstance(node, ast.ImportFrom) and node.module.startswith("proctor")
        for alias in node.names
    ]
    assert sorted(seen) == sorted(proctor._HOME_OF.items())
    assert sorted(proctor._HOME_OF) == proctor.__all__


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        proctor.runn  # noqa: B018


def test_every_error_with_a_name_of_its_own_is_public():
    from proctor.kernel import errors

    named = {
        n
        for n, v in vars(errors).items()
        if isinstance(v, type) and v.__module__ == errors.__name__
    }
    assert named <= set(proctor.__all__)


def test_package_exports_are_there():
    for module in modules():
        if not module.is_package or "__all__" not in module.text:
            continue
        package = importlib.import_module(module.name)
        assert len(set(package.__all__)) == len(package.__all__), module.name
        assert [n for n in package.__all__ if not hasattr(package, n)] == [], module.name


@pytest.mark.parametrize(("name", "target"), ENTRY_POINTS)
def test_an_entry_point_names_a_component_with_that_id(name, target):
    module, _, attribute = target.partition(":")
    component = getattr(importlib.import_module(module), attribute)
    assert component.id == name
    assert component.__doc__, f"{target} has no docstring"


def test_import_proctor_imports_nothing_else():
    added = modules_after("import proctor")
    assert added & HEAVY == set()
    assert added <= {"proctor", "importlib", "warnings", "_warnings"}


def test_the_contracts_do_not_import_what_only_running_needs():
    added = modules_after("import proctor; proctor.Benchmark, proctor.Harness, proctor.Model")
    assert added & {"httpx", "jinja2", "pydantic", "rich", "sqlite3", "typer", "yaml"} == set()


def test_help_does_not_import_what_only_running_needs():
    code = (
        "import proctor.__main__\nsys.argv = ['proctor', '--help']\n"
        "try: proctor.__main__.main()\nexcept SystemExit as stop: assert not stop.code"
    )
    added = modules_after(code)
    assert "proctor" in added
    assert added & {"asyncio", "httpx", "jinja2", "pydantic", "sqlite3", "yaml"} == set()
