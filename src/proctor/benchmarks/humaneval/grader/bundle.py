"""One program text of the modules in this folder."""

from functools import cache
from pathlib import Path

_PACKAGE = "proctor.benchmarks.humaneval.grader"
_MODULES = ("plain_data", "confine", "candidate", "checker")  # each imports only earlier ones

_LOADER = """\
import sys, types
for name, source in MODULES:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""


@cache
def source() -> str:
    """The text for `python3 -I -S -c`."""
    here = Path(__file__).parent
    modules = [
        (f"{_PACKAGE}.{name}", (here / f"{name}.py").read_text("utf-8")) for name in _MODULES
    ]
    return f"MODULES = {modules!r}\n{_LOADER}"
