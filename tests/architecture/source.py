"""The source tree as data, for the tests beside this file."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


@dataclass(frozen=True)
class Module:
    """One parsed module; `name` is dotted, a package's is its own name."""

    name: str
    path: Path
    is_package: bool
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """What relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def room(self) -> str:
        """The part after `proctor.`: the package whose floor counts; empty for the root."""
        return self.name.partition(".")[2].partition(".")[0]


def parse(name: str, text: str, path: Path = Path("made-up.py"), package: bool = False) -> Module:
    return Module(name, path, package, text, ast.parse(text))


@cache
def modules() -> tuple[Module, ...]:
    """Every module under src/, sorted by path."""
    found = []
    for path in sorted(SRC.rglob("*.py")):
        relative = path.relative_to(SRC)
        if {"samples", "tasks"} <= set(relative.parts):  # data: the files of sample tasks
            continue
        parts = relative.with_suffix("").parts
        package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if package else parts)
        found.append(parse(name, path.read_text("utf-8"), path.relative_to(ROOT), package))
    return tuple(found)


@dataclass(frozen=True)
class Import:
    """`module` imports `target` (a dotted module name) in `line`; `name` is what it takes."""

    module: Module
    target: str
    line: int
    name: str = ""

    def __str__(self) -> str:
        return f"{self.module.path}:{self.line} imports {self.target}"


def imports(module: Module, known: frozenset[str]) -> Iterator[Import]:
    """Every import of a module: in functions, under TYPE_CHECKING and by constant name too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(module, full if full in known else base, node.lineno, alias.name)
        elif isinstance(node, ast.Call) and _is_import_call(node):
            target = node.args[0]
            if isinstance(target, ast.Constant) and isinstance(target.value, str):
                yield Import(module, target.value, node.lineno)


def _base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.package.split(".")
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _is_import_call(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("import_module", "__import__") and bool(node.args)


def known_names(found: tuple[Module, ...]) -> frozenset[str]:
    return frozenset(m.name for m in found)


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
