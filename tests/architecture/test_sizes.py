"""Small files, small functions, few parameters."""

import ast

from tests.architecture.source import functions, modules, parse

FILE_LINES = 350
FUNCTION_LINES = 60
FUNCTION_LINES_P90 = 35
PARAMETERS = 8


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return function.end_lineno - function.lineno + 1


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a caller sees: `self`, `cls`, `*args` and `**kwargs` do not count."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if names and names[0] in ("self", "cls"):
        names = names[1:]
    return len(names) + len(function.args.kwonlyargs)


def is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A command's parameters are its options: their number is the specification's."""
    return any(ast.unparse(d).startswith("app.command(") for d in function.decorator_list)


def test_files_are_small():
    sizes = {str(m.path): m.text.count("\n") for m in modules()}
    assert {path: n for path, n in sizes.items() if n > FILE_LINES} == {}


def test_functions_are_small():
    long = [
        f"{m.path}:{f.lineno} {f.name}: {length(f)} lines"
        for m in modules()
        for f in functions(m)
        if length(f) > FUNCTION_LINES
    ]
    assert long == []


def test_nine_functions_in_ten_fit_half_a_page():
    lengths = sorted(length(f) for m in modules() for f in functions(m))
    assert lengths[len(lengths) * 9 // 10] < FUNCTION_LINES_P90


def test_functions_have_few_parameters():
    many = [
        f"{m.path}:{f.lineno} {f.name}: {parameters(f)} parameters"
        for m in modules()
        for f in functions(m)
        if parameters(f) > PARAMETERS and not (m.room == "cli" and is_command(f))
    ]
    assert many == []


def test_parameters_are_counted_as_a_caller_sees_them():
    (function,) = functions(parse("x", "async def f(self, a, b=1, *args, c, d=2, **rest): pass"))
    assert parameters(function) == 4
