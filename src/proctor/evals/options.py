"""From what people typed to checked values: `-p KEY=VALUE`, files, and clear refusals.

An option declared as text takes VALUE verbatim; any other declared type is parsed as JSON;
an undeclared key is refused with the nearest names; of a repeated key the last wins. Never YAML.
"""

import difflib
import types
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from proctor.kernel import jsontext
from proctor.kernel.errors import OptionError
from proctor.kernel.redact import looks_secret

Shape = TypeVar("Shape", bound=BaseModel)

LONGEST_SHOWN = 80
"""Longer values are not repeated in a complaint."""

_SHAPES = {
    "model_type": "a group of settings (KEY: VALUE)",
    "model_attributes_type": "a group of settings (KEY: VALUE)",
    "dict_type": "a group of settings (KEY: VALUE)",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text",
    "string_unicode": "text in UTF-8",
    "string_too_short": "text that is not empty",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "invalid_key": "text (it is a key)",
}
"""What pydantic's complaints about types come to."""

_WORDS = (
    ("Input should be", "must be"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
)

_TYPE_NAMES = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "Decimal": "a number",
    "NoneType": "null",
    "str": "text",
    "list": "a JSON list",
    "tuple": "a JSON list",
    "dict": "a JSON object",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint listing the nearest known names, or all of them when they are few."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    return "known: " + ", ".join(names[:12]) if names else "none are known"


def parse_option(model: type[BaseModel] | None, key: str, text: str, where: str) -> Any:
    """The value of `key=text` as `model` declares it. Raises OptionError."""
    annotation = _annotation(model, key.split("."), f"{where}.{key}", where)
    if _is_text(annotation):
        return text
    try:
        return jsontext.loads(text)
    except jsontext.JsonError as error:
        if _accepts_text(annotation):
            return text
        raise OptionError(
            f"{where}.{key}: {text!r} is not JSON ({error})",
            hint=f"expected {_type_name(annotation)}",
        ) from None


def assign(target: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted `key` in nested dictionaries."""
    *parents, last = key.split(".")
    for parent in parents:
        inner = target.get(parent)
        target = target.setdefault(parent, {}) if not isinstance(inner, dict) else inner
        if not isinstance(target, dict):
            raise OptionError(f"{key}: {parent} is not a group of options")
    target[last] = value


def build_options(
    model: type[BaseModel] | None, given: Mapping[str, Any], where: str
) -> BaseModel | None:
    """Validate a component's options. Raises OptionError naming each field."""
    if model is None:
        if given:
            raise OptionError(
                "\n".join(f"{where}.{key}: this {where} takes no options" for key in sorted(given))
            )
        return None
    unknown = [key for key in given if key not in _names(model)]
    if unknown and model.model_config.get("extra") != "allow":
        hints = "; ".join(f"{key}: {nearest(key, _names(model))}" for key in unknown)
        raise OptionError(
            "\n".join(f"{where}.{key}: unknown option" for key in unknown), hint=hints
        )
    return validate(model, given, where)


def validate(model: type[Shape], given: Mapping[str, Any], where: str) -> Shape:
    """Validate `given` as `model`; every problem in one OptionError."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        problems = [_problem(where, item) for item in error.errors(include_url=False)]
        hint = _unknown_key_hint(model, error)
        raise OptionError("\n".join(problems), hint=hint) from None


def _problem(where: str, item: Any) -> str:
    path = ".".join([where, *map(str, item["loc"])]) if where else ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        return f"{path}: unknown key"
    if item["type"] == "missing":
        return f"{path}: is required"
    shown = repr(item.get("input"))
    said = item["type"] == "value_error"  # our own texts repeat what is wrong
    if said or len(shown) > LONGEST_SHOWN or looks_secret(path.rpartition(".")[2]):
        return f"{path}: {_complaint(item)}"
    return f"{path}: {_complaint(item)} (got {shown})"


def _complaint(item: Any) -> str:
    """What is wrong with a value, in words that do not name our classes."""
    shape = _SHAPES.get(item["type"])
    if shape is not None:
        return f"must be {shape}"
    text = str(item["msg"]).removeprefix("Value error, ")
    for said, better in _WORDS:
        text = text.replace(said, better)
    return text


def _unknown_key_hint(model: type[BaseModel], error: ValidationError) -> str | None:
    hints = []
    for item in error.errors(include_url=False):
        if item["type"] == "extra_forbidden":
            *parents, key = map(str, item["loc"])
            owner = _descend(model, parents)
            if owner is not None:
                hints.append(f"{key}: {nearest(key, _names(owner))}")
    return "; ".join(hints) or None


def _descend(model: type[BaseModel] | None, path: Sequence[str]) -> type[BaseModel] | None:
    for part in path:
        field = model.model_fields.get(part) if model is not None else None
        model = _model_in(field.annotation) if field is not None else None
    return model


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _annotation(model: type[BaseModel] | None, path: list[str], key: str, where: str) -> Any:
    if model is None:
        raise OptionError(f"{key}: this {where} takes no options")
    name = path[0]
    field = next((f for n, f in model.model_fields.items() if name in (n, f.alias)), None)
    if field is None:
        if model.model_config.get("extra") == "allow":
            return Any
        raise OptionError(f"unknown option {key}", hint=nearest(name, _names(model)))
    if len(path) == 1:
        return field.annotation
    inner = _model_in(field.annotation)
    if inner is not None:
        return _annotation(inner, path[1:], key, where)
    for part in _alternatives(field.annotation):
        if get_origin(part) is dict or part is dict:
            return (get_args(part) or (Any, Any))[1]
    raise OptionError(f"unknown option {key}: {name} has no parts")


def _alternatives(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [alt for arg in get_args(annotation) for alt in _alternatives(arg)]
    return [annotation]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    for part in _alternatives(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _is_text(annotation: Any) -> bool:
    parts = [p for p in _alternatives(annotation) if p is not type(None)]
    return bool(parts) and all(map(_text_type, parts))


def _accepts_text(annotation: Any) -> bool:
    return any(map(_text_type, _alternatives(annotation)))


def _text_type(part: Any) -> bool:
    if get_origin(part) is Literal:
        return all(isinstance(value, str) for value in get_args(part))
    if not isinstance(part, type):
        return False
    return issubclass(part, str | Path) or (
        issubclass(part, Enum) and all(isinstance(m.value, str) for m in part)
    )


def _type_name(annotation: Any) -> str:
    return " or ".join(map(_one_type_name, _alternatives(annotation)))


def _one_type_name(part: Any) -> str:
    if get_origin(part) is Literal:
        return " or ".join(map(repr, get_args(part)))
    if _model_in(part) is not None:
        return _TYPE_NAMES["dict"]
    name = getattr(get_origin(part) or part, "__name__", str(part))
    return _TYPE_NAMES.get(name, name)
