"""Ignore files and path patterns, and that hostile ones cost nothing."""

import subprocess
import time

import pytest

from proctor.kernel.ignore import DockerIgnore, GitIgnore, PathPattern

GIT = (
    r"""
# comment
*.log
!keep.log
build/
/top.txt
docs/*.md
**/cache/**
a/**/z
\#literal
\!bang
[ab]?.c
"""
    + "spaced\\ \ntrailing   \n"
)
PATHS = [
    "x.log", "d/x.log", "keep.log", "build", "build/x", "d/build/x/y", "top.txt", "d/top.txt",
    "docs/a.md", "docs/d/a.md", "x/docs/a.md", "cache/x", "d/cache/e/f", "cache", "a/z", "a/b/c/z",
    "a/b", "#literal", "!bang", "spaced ", "spaced", "a1.c", "c1.c", "a12.c", "trailing",
    "logs/keep.log", "build/keep.log", "x.logs", "z",
]  # fmt: skip


def test_gitignore_agrees_with_git(tmp_path):
    """Git itself is the oracle: which of these files does it ignore?"""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, capture_output=True)
    (tmp_path / ".gitignore").write_text(GIT)
    asked = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(PATHS).encode() + b"\0",
        capture_output=True,
        check=True,
    )
    by_git = set(asked.stdout.decode().split("\0")) - {""}
    assert by_git  # it did look at the rules
    rules = GitIgnore(GIT)
    assert {path for path in PATHS if rules.ignores(path)} == by_git


@pytest.mark.parametrize(
    ("rules", "ignored", "kept"),
    [
        ("notes", ["notes", "notes/a/b"], ["x/notes", "notes2"]),
        ("**/*.tmp\n!keep.tmp", ["a.tmp", "d/a.tmp", "d/keep.tmp"], ["keep.tmp", "a.tmp2"]),
        ("docs\n!docs/a.md", ["docs/b.md"], ["docs/a.md"]),
        ("# c\n\n/x/ \r\n./y", ["x/z", "y"], ["z"]),
        ("*\n!src", ["a", "b/c"], ["src/x"]),
    ],
)
def test_dockerignore(rules, ignored, kept):
    found = DockerIgnore(rules)
    assert [path for path in ignored if not found.ignores(path)] == []
    assert [path for path in kept if found.ignores(path)] == []


def test_no_rule_ignores_nothing():
    assert not DockerIgnore("# only a comment\n")
    assert not DockerIgnore("").ignores("x")


def test_hostile_patterns_are_cheap():
    start = time.process_time()
    deep = ["a"] * 2_000
    assert not PathPattern("/".join(["**", "a"] * 12) + "/b").matches(deep)
    assert not PathPattern("*a" * 40 + "b").matches(["a" * 255])
    assert time.process_time() - start < 1.0
