"""Dependencies are few, pinned by name and version only, and the scripts are what CI runs."""

import importlib.metadata
import os
import re
import shlex
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from tests.architecture.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SCRIPTS = ("bench", "check", "demo", "test")


def pinned() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def closure(requirements: list[str]) -> set[str]:
    """Every distribution that `requirements` bring in here, as pip resolved them."""
    seen: set[str] = set()
    waiting = [Requirement(r) for r in requirements]
    while waiting:
        requirement = waiting.pop()
        marker = requirement.marker
        extras = requirement.extras or {""}
        if marker and not any(marker.evaluate({"extra": e}) for e in extras):
            continue
        key = canonicalize_name(requirement.name)
        if key in seen:
            continue
        seen.add(key)
        for text in importlib.metadata.requires(key) or []:
            child = Requirement(text)
            if child.marker is None or any(child.marker.evaluate({"extra": e}) for e in extras):
                child.marker = None
                waiting.append(child)
    return seen


def test_constraints_are_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    entries = [line for line in lines if not line.startswith("#")]
    assert [e for e in entries if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", e)] == []
    assert entries == sorted(entries, key=lambda e: canonicalize_name(e.split("==")[0]))
    assert len(pinned()) == len(entries)


def test_constraints_pin_everything_that_core_and_dev_bring_in():
    everything = closure(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"])
    assert {"mypy-extensions", "httpcore", "execnet"} <= everything  # it does follow dependencies
    assert everything - set(pinned()) == set()


def test_declared_ranges_admit_the_pinned_versions():
    versions = pinned()
    for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]:
        requirement = Requirement(text)
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier, text


def test_the_core_is_at_most_25_packages():
    assert len(closure(PROJECT["dependencies"])) + 1 <= 25


def test_the_promised_extras_exist():
    promised = {"openai", "anthropic", "docker", "mcp", "service", "ray", "parquet", "dev"}
    assert set(PROJECT["optional-dependencies"]) == promised


@pytest.mark.parametrize("name", [*(f"scripts/{s}" for s in SCRIPTS), ".ci/run"])
def test_scripts_are_executable_and_parse(name):
    path = ROOT / name
    assert os.access(path, os.X_OK)
    assert path.read_text("utf-8").startswith("#!/usr/bin/env bash\n")
    done = subprocess.run(
        ["bash", "-n", path], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_ci_runs_the_local_scripts_and_nothing_else():
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    commands = [shlex.split(line)[0] for line in lines if line and not line.startswith("#")]
    assert commands == ["set", "cd", "export", "./scripts/check", "./scripts/test"]
