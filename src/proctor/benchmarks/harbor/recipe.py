"""What a simple Dockerfile asks for: start folder, variables, files, and what needs an image.

WORKDIR, ENV, ARG, COPY and ADD of files in the build context are honoured without building
anything. FROM, RUN and what depends on them are listed, for the provider to warn about or to
build. LABEL, EXPOSE, CMD and the like have no effect on a task, whose main process is a sleep.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from proctor.benchmarks.harbor.context import BuildContext
from proctor.benchmarks.harbor.dockerfile import (
    DockerfileError,
    Instruction,
    arguments,
    expand,
    instructions,
    pairs,
)

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What ${PATH} means in a Dockerfile whose base image is not looked into."""

_WITHOUT_EFFECT = frozenset(
    ["LABEL", "MAINTAINER", "EXPOSE", "VOLUME", "STOPSIGNAL", "CMD", "SHELL", "HEALTHCHECK",
     "ONBUILD"]
)  # fmt: skip
_COPYING = ("COPY", "ADD")
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_KNOWN_FOLDERS = frozenset(
    ["/", "/bin", "/etc", "/home", "/lib", "/mnt", "/opt", "/root", "/sbin", "/srv", "/usr",
     "/tmp",  # noqa: S108 - a path inside an environment
     "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/sbin",
     "/usr/share", "/var", "/var/lib"]
)  # fmt: skip
_VALUE_LIMIT = 65_536
_MAX_OPERANDS = 2_000


@dataclass(frozen=True, slots=True)
class Copy:
    """A file or folder of the build context (`source`, relative, "" is all of it) and the
    absolute path inside that it, or what is in it, is copied to."""

    source: str
    target: str
    folder: bool


@dataclass(frozen=True, slots=True)
class Recipe:
    """The part of a Dockerfile that needs no image, and the lines that do (`build`)."""

    workdir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[Copy, ...] = ()
    build: tuple[str, ...] = ()


def read(text: str, context: BuildContext) -> Recipe:
    """Read a Dockerfile. Raises DockerfileError with the line of what is wrong."""
    stages: dict[str, _Stage] = {}
    stage: _Stage | None = None
    arguments_before: dict[str, str] = {}
    build: list[str] = []
    steps = instructions(text)
    if sum(len(step.rest.split()) for step in steps if step.name in _COPYING) > _MAX_OPERANDS:
        raise DockerfileError(f"COPY and ADD name more than {_MAX_OPERANDS:,} paths")
    for step in steps:
        if step.name == "FROM":
            build.append(step.text)
            stage = _new_stage(step, stages, arguments_before)
        elif stage is None and step.name == "ARG":
            arguments_before.update(_assignments(step, arguments_before))
        elif stage is None:
            raise DockerfileError(f"line {step.line}: {step.name} before FROM")
        elif not stage.apply(step, context):
            build.append(step.text)
    if stage is None:
        raise DockerfileError("there is no FROM instruction")
    env = {key: value for key, value in stage.env.items() if "\0" not in key + value}
    return Recipe(stage.workdir, env, tuple(stage.copies), tuple(build))


@dataclass(slots=True)
class _Stage:
    """The state of one build stage. `args` are build arguments, which `env` overrides."""

    workdir: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    args: dict[str, str] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    folders: set[str] = field(default_factory=lambda: set(_KNOWN_FOLDERS))

    def variables(self) -> dict[str, str]:
        return {"PATH": DEFAULT_PATH, **self.args, **self.env}

    def apply(self, step: Instruction, context: BuildContext) -> bool:
        """Honour an instruction; whether that needs nothing of an image."""
        if step.name == "WORKDIR":
            self.workdir = self.inside(self.word(step.rest))
            self.folders.add(self.workdir)
        elif step.name == "ENV":
            self.env.update(_assignments(step, self.variables()))
        elif step.name == "ARG":
            self.args.update(_assignments(step, self.variables()))
        elif step.name in _COPYING:
            return self.copy(step, context)
        elif step.name == "USER":
            return self.word(step.rest).split(":")[0] in ("root", "0")
        elif step.name in ("RUN", "ENTRYPOINT"):
            return False
        elif step.name not in _WITHOUT_EFFECT:
            raise DockerfileError(f"line {step.line}: unknown instruction {step.name}")
        return True

    def word(self, text: str) -> str:
        return expand(text, self.variables())

    def inside(self, path: str) -> str:
        """An absolute, normalised path; relative ones start at the current WORKDIR."""
        return posixpath.normpath(posixpath.join(self.workdir or "/", path)).replace("//", "/")

    def copy(self, step: Instruction, context: BuildContext) -> bool:
        flags, operands = arguments(step.rest)
        names = {flag.partition("=")[0] for flag in flags}
        if step.heredoc or names & {"--from", "--exclude", "--parents"}:
            return False
        operands = [self.word(operand) for operand in operands]
        if len(operands) < 2:
            raise DockerfileError(f"line {step.line}: {step.name} needs a source and a target")
        *sources, target = operands
        if step.name == "ADD" and any(_fetched_or_unpacked(source) for source in sources):
            return False
        found = [(path, is_folder) for s in sources for path, is_folder in _find(s, step, context)]
        into = target.endswith(("/", "/.")) or target == "." or len(found) > 1
        place = self.inside(target)
        for path, is_folder in found:
            self._place(path, is_folder, place, into or place in self.folders)
        return "--chmod" not in names

    def _place(self, path: str, is_folder: bool, place: str, into: bool) -> None:
        if not is_folder and into:
            self.folders.add(place)
            place = posixpath.join(place, posixpath.basename(path))
        elif is_folder:
            self.folders.add(place)
        self.copies.append(Copy(path, place, is_folder))


def _new_stage(step: Instruction, stages: dict[str, _Stage], known: Mapping[str, str]) -> _Stage:
    parts = [part for part in step.rest.split() if not part.startswith("--")]
    if not parts:
        raise DockerfileError(f"line {step.line}: FROM needs an image")
    base = stages.get(expand(parts[0], known).lower())
    stage = _Stage()
    if base is not None:
        stage = _Stage(base.workdir, dict(base.env), {}, list(base.copies), set(base.folders))
    if len(parts) == 3 and parts[1].upper() == "AS":
        stages[parts[2].lower()] = stage
    return stage


def _assignments(step: Instruction, variables: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in pairs(step.rest):
        name = expand(key, variables)
        if not name or (step.name == "ARG" and "=" not in step.rest and name in variables):
            continue
        found[name] = expand(value, variables)
        if len(found[name]) > _VALUE_LIMIT:
            raise DockerfileError(f"line {step.line}: the value of {name[:60]} is too long")
    return found


def _find(source: str, step: Instruction, context: BuildContext) -> list[tuple[str, bool]]:
    found = context.find(source)
    if not found:
        raise DockerfileError(
            f"line {step.line}: {step.name}: {source!r} is not in environment/, "
            "or .dockerignore leaves it out"
        )
    return found


def _fetched_or_unpacked(source: str) -> bool:
    return "://" in source or source.startswith("git@") or source.lower().endswith(_ARCHIVES)
