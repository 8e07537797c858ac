"""docs/commands.md knows every command, every flag, and where each flag's setting stands."""

import re
from pathlib import Path

import typer

import proctor
from proctor.cli.app import app
from proctor.cli.settings import FLAG_PLACES, FLAGS_OF_PLACES
from proctor.evals.request import RunRequest

PAGE = Path(proctor.__file__).parents[2] / "docs" / "commands.md"


def commands() -> dict[str, list[str]]:
    """Each command with the flags that it takes."""
    return dict(below(typer.main.get_command(app), ""))


def below(group, prefix):
    """The commands of a group and of the groups in it, by their whole names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from below(command, f"{prefix}{name} ")
        else:
            flags = [opt for p in command.params for opt in p.opts if opt.startswith("-")]
            yield f"{prefix}{name}", flags


def test_every_command_and_flag_is_in_the_reference():
    text = PAGE.read_text("utf-8")
    assert [n for n in commands() if f"`proctor {n}`" not in text] == []
    flags = {flag for found in commands().values() for flag in found}
    assert len(flags) > 20
    assert [f for f in sorted(flags) if not re.search(rf"[` ]{re.escape(f)}[` =\n]", text)] == []


def test_every_flag_that_is_a_setting_has_its_place_in_the_table():
    rows = re.findall(r"^\| `(-[-a-z]+)` \| `([a-z_.]+)` \|", PAGE.read_text("utf-8"), re.M)
    assert {place: flag for flag, place in rows} == FLAGS_OF_PLACES
    others = ("-p", "--progress", "--json", "--reuse", "--reuse-from", "--reuse-anyway")
    settings = {f for f in commands()["run"] if f not in others}
    assert settings == set(FLAGS_OF_PLACES.values())


def test_every_place_is_one_of_a_request():
    for place in FLAG_PLACES.values():
        shape = RunRequest
        *groups, last = place.split(".")
        for group in groups:
            annotation = shape.model_fields[group].annotation
            shape = next(
                part
                for part in (annotation, *getattr(annotation, "__args__", ()))
                if hasattr(part, "model_fields")
            )
        assert last in shape.model_fields, place
