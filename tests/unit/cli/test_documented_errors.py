"""docs/errors.md lists every code, and no other."""

import ast
import re
from pathlib import Path

import proctor
from proctor.kernel import errors
from proctor.kernel.issues import Phase
from proctor.models.errors import Category

SOURCE = Path(proctor.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "errors.md"
WORD = re.compile(r"[a-z]+(?:_[a-z]+)+")
MAKERS = {"note", "Issue", "_error", "_warning", "NoReward", "not_scored"}
"""Functions that take the code of an issue as a positional argument."""


def documented(start: str, end: str | None) -> set[str]:
    text = PAGE.read_text("utf-8")
    section = text[text.index(start) : text.index(end) if end else None]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {code for cell in cells for code in re.findall(r"`([a-z_]+)`", cell)}


def sources() -> list[str]:
    files = sorted(SOURCE.rglob("*.py"))
    skipped = {"testing", "samples", "cli"}
    return [p.read_text("utf-8") for p in files if not skipped & set(p.relative_to(SOURCE).parts)]


def issue_codes(text: str) -> set[str]:
    """The codes that a module gives to issues and faults, as far as they stand there as words."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            words = [k.value for k in node.keywords if k.arg == "code"]
            words += node.args if name in MAKERS else []
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
            words = node.elts[:1] if isinstance(node.elts[1], ast.BinOp | ast.JoinedStr) else []
        else:
            continue
        found |= {w.value for w in words if isinstance(w, ast.Constant)
                  and isinstance(w.value, str) and WORD.fullmatch(w.value)}  # fmt: skip
    return found


def subclasses(cls: type) -> set[type]:
    return {cls} | {s for c in cls.__subclasses__() for s in subclasses(c)}


def test_refusals_are_the_usage_errors():
    refusals = documented("## Refusals", "Two are not refusals")
    ours = {c.code for c in subclasses(errors.UsageError) if c.__module__ == errors.__name__}
    assert refusals == ours | {"not_valid"}
    others = documented("Two are not refusals", "## Issues")
    assert others == {errors.StorageError.code, "defect"}


def test_every_code_of_an_issue_is_documented():
    codes = set().union(*map(issue_codes, sources()))
    codes |= {category.value for category in Category}
    codes |= {f"{phase.value}_{how}" for phase in Phase for how in ("failed", "timeout")}
    assert len(codes) > 50
    assert codes - documented("## Issues", None) == set()


def test_every_documented_code_is_one():
    text = "\n".join(sources())
    by_phase = {f"{phase.value}_{how}" for phase in Phase for how in ("failed", "timeout")}
    codes = documented("## Issues", None) - by_phase
    assert [code for code in sorted(codes) if f'"{code}"' not in text] == []


def test_a_code_is_found_wherever_it_is_given():
    text = (
        "EnvironmentFault('x', code='cannot_start')\n"
        "log.note(Severity.ERROR, Phase.RUN, Cause.AGENT, 'agent_exit', message)\n"
        "found = [('image_not_built', 'text ' + more)]\n"
        "other('not_this_one')\n"
    )
    assert issue_codes(text) == {"cannot_start", "agent_exit", "image_not_built"}
