import ast
import os
import random
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import Wrong, call, expect, main, read, run

with open(os.path.join(os.path.dirname(__file__), "original.py"), encoding="utf-8") as file:
    ORIGINAL = {}
    exec(compile(file.read(), "original.py", "exec"), ORIGINAL)
with open(os.path.join(os.path.dirname(__file__), "visible.py"), encoding="utf-8") as file:
    VISIBLE = file.read()
LONGEST = 12


def orders():
    source = random.Random(3)
    for _ in range(80):
        lines = [
            {"name": f"n{n}", "count": source.randrange(1, 14), "cents": source.randrange(1, 9000)}
            for n in range(source.randrange(5))
        ]
        order = {"customer": "Zoë", "member": source.random() < 0.5, "lines": lines}
        if source.random() < 0.2:
            del order["member"]
        yield order
    for cents in (20_000, 20_001, 100_000, 100_001):
        for member in (True, False):
            lines = [{"name": "x", "count": 1, "cents": cents}]
            yield {"customer": "edge", "member": member, "lines": lines}


def check(workspace):
    functions = shape(read(f"{workspace}/invoice.py"))
    used = {n.id for n in ast.walk(functions["render"]) if isinstance(n, ast.Name)}
    for name in ("line_total", "discount", "tax"):
        if name not in used:
            raise Wrong(f"render does not use {name}")
    expect("test_invoice.py", read(f"{workspace}/test_invoice.py"), VISIBLE)
    given = list(orders())
    answers = call(workspace, "invoice", [["render", [order]] for order in given])
    for order, (found, _) in zip(given, answers):
        expect(f"render({order})", found, ORIGINAL["render"](order))
    parts = [
        ["line_total", [{"name": "x", "count": 10, "cents": 33}]],
        ["line_total", [{"name": "x", "count": 9, "cents": 33}]],
        ["discount", [{"member": True}, 20_001]],
        ["discount", [{}, 100_001]],
        ["discount", [{"member": False}, 100_000]],
        ["tax", [50]],
    ]
    results = [found for found, _ in call(workspace, "invoice", parts)]
    expect("line_total, discount, tax", results, [313, 297, 1000, 3000, 0, 10])
    run([sys.executable, "-B", "-m", "unittest", "-q"], cwd=workspace)


def shape(source):
    """The functions of the module by name; none may be too long or missing."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise Wrong(f"invoice.py: {error}") from None
    found = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda):
            raise Wrong("a lambda is not a way to shorten a function")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = node
            if length(node) > LONGEST:
                raise Wrong(f"{node.name} has {length(node)} lines")
    missing = {"render", "line_total", "discount", "tax"} - set(found)
    if missing:
        raise Wrong(f"functions missing: {sorted(missing)}")
    return found


def length(node):
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(getattr(first, "value", None), ast.Constant):
        lines -= first.end_lineno - first.lineno + 1
    return lines


main(check)
