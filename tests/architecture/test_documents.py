"""Documents agree with the tree, and no file names a machine or a registry."""

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

from tests.architecture.source import ROOT

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.S | re.M)
# Written so that this file does not match itself.
PRIVATE = re.compile(
    r"/wor[k]/|pypi\.or[g]|pythonhoste[d]|registry\.npmj[s]|deb\.debian\.or[g]"
    r"|index-ur[l]|/User[s]/|/home/(?!user\b|agent\b)[a-z]"
)
TEXT_SUFFIXES = {
    "", ".cfg", ".css", ".csv", ".html", ".ini", ".js", ".json", ".jsonl", ".md", ".py", ".sh",
    ".sql", ".svg", ".toml", ".txt", ".yaml", ".yml",
}  # fmt: skip
LARGEST_FILE_BYTES = 500_000


@cache
def tracked() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    paths = [ROOT / name for name in listed.decode("utf-8").split("\0") if name]
    return tuple(sorted(p for p in paths if p.is_file() and not p.is_symlink()))


def documents() -> list[Path]:
    return [p for p in tracked() if p.suffix == ".md" and "samples" not in p.parts
            and p.relative_to(ROOT).parts[0] != "tests"]  # fmt: skip


def headings(path: Path) -> set[str]:
    """The anchors of a Markdown file, made as code hosts make them."""
    text = FENCE.sub("", path.read_text("utf-8"))
    titles = re.findall(r"^#+\s+(.+?)\s*$", text, re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", t).lower() for t in titles)
    return {re.sub(r"[^\w\- ]", "", t).replace(" ", "-") for t in plain}


def broken_links(path: Path, root: Path = ROOT) -> list[str]:
    text = FENCE.sub("", path.read_text("utf-8"))
    wrong = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or not target.is_relative_to(root):
            wrong.append(f"{path.relative_to(root)}: {link} is not there")
        elif anchor and anchor not in headings(target):
            wrong.append(f"{path.relative_to(root)}: {link}: no such heading")
    return wrong


def test_every_relative_link_resolves():
    assert len(documents()) > 5
    assert [line for p in documents() for line in broken_links(p)] == []


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path.parent / "outside.md").write_text("")
    page.write_text(
        "# A `b` c\n[right](#a-b-c) [right](page.md#a-b-c) [web](https://example.org/x)\n"
        "[x](#nothing) [x](page.md#nothing) [x](gone.md) [x](../outside.md)\n"
        "```\n[in code](gone.md)\n```\n"
    )
    assert [line.split(":")[1].strip().split(" ")[0] for line in broken_links(page, tmp_path)] == [
        "#nothing",
        "page.md#nothing",
        "gone.md",
        "../outside.md",
    ]


def test_every_page_of_the_documentation_is_in_its_index_once():
    docs = ROOT / "docs"
    links = LINK.findall((docs / "index.md").read_text("utf-8"))
    linked = sorted((docs / link.partition("#")[0]).resolve() for link in links)
    pages = {p for p in documents() if p.is_relative_to(docs)} - {docs / "index.md"}
    assert linked == sorted(pages)


def test_the_readme_begins_with_the_two_commands():
    readme = (ROOT / "README.md").read_text("utf-8")
    commands = [
        line.split("#")[0].strip()
        for block in re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", readme, re.S | re.M)
        for line in block.splitlines()
        if line.strip()
    ]
    assert commands[:2] == ["./scripts/demo", "./scripts/test"]


def test_the_changelog_has_a_section_for_what_is_not_released():
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    titles = [line for line in lines if line.startswith("## ")]
    assert titles[0] == "## Unreleased"
    assert any(line.startswith("- ") for line in lines[lines.index("## Unreleased") :])


def test_decisions_are_numbered_without_gaps_and_say_three_things():
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [p.name[:4] for p in records] == [f"{n:04d}" for n in range(1, len(records) + 1)]
    for record in records:
        assert {"context", "decision", "consequences"} <= headings(record), record.name


def test_the_licence_is_the_declared_one():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["license"]
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert declared == "Apache-2.0"
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_no_file_names_a_machine_or_a_registry():
    here = str(ROOT)
    found = []
    for path in tracked():
        if path.suffix not in TEXT_SUFFIXES:
            continue
        text = path.read_text("utf-8", errors="replace")
        match = PRIVATE.search(text)
        if match or (len(here) > 8 and here + "/" in text):
            found.append(f"{path.relative_to(ROOT)}: {match[0] if match else here}")
    assert found == []


def test_files_in_the_repository_are_small():
    large = {str(p.relative_to(ROOT)): p.stat().st_size for p in tracked()}
    assert {name: n for name, n in large.items() if n > LARGEST_FILE_BYTES} == {}
