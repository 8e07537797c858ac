"""The scorers of `table`, by name. Each is imported on use."""

import difflib
import importlib

from proctor.benchmarks.table.options import TableOptions
from proctor.benchmarks.table.scorers.contract import Scorer, Verdict
from proctor.kernel.errors import OptionError

_HERE = "proctor.benchmarks.table.scorers"
SCORERS = {
    "exact": ("exact", "Exact"),
    "includes": ("includes", "Includes"),
    "regex": ("regex", "Regex"),
    "numeric": ("numeric", "Numeric"),
    "choice": ("choice", "Choice"),
    "json": ("json_equality", "JsonEquality"),
    "python": ("python_function", "PythonFunction"),
}
"""Name → (module, class). `python` takes an argument: `python:file.py:function`."""

__all__ = ["SCORERS", "Scorer", "Verdict", "make_scorer"]


def make_scorer(options: TableOptions) -> Scorer:
    """The scorer that `options.scorer` names. Raises OptionError."""
    name, _, argument = options.scorer.partition(":")
    if name not in SCORERS or (argument and name != "python"):
        raise OptionError(f"unknown scorer {options.scorer!r}", hint=_known(name))
    module, attribute = SCORERS[name]
    scorer: type[Scorer] = getattr(importlib.import_module(f"{_HERE}.{module}"), attribute)
    given = options.model_fields_set - {"scorer", "columns"}
    if foreign := sorted(given - set(scorer.own_options)):
        takes = ", ".join(scorer.own_options) or "no options"
        raise OptionError(
            f"benchmark.{foreign[0]} does not belong to scorer {name!r}",
            hint=f"scorer {name!r} takes {takes}",
        )
    return scorer(options, argument)


def _known(name: str) -> str:
    shown = [n if n != "python" else "python:FILE.py:FUNCTION" for n in SCORERS]
    close = difflib.get_close_matches(name, SCORERS, n=1)
    return f"known scorers: {', '.join(shown)}" + (f"; did you mean {close[0]}?" if close else "")
