"""Whether arguments fit the JSON schema that a tool declares.

Schemas may come from strangers: nothing is fetched, whatever `$ref` says, and patterns are of the
kind that take linear time (no look-around, no back-references). What a schema can cost is bounded
before it is compiled (`schema_bounds`).
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from proctor.agent import schema_bounds as bounds
from proctor.kernel import jsontext

_SHOWN = 5
_PATTERN_BYTES = 1_000_000
# Arguments are an object in any case.
_ANYTHING: tuple[Mapping[str, Any], ...] = ({}, {"type": "object"})


class Schema:
    """One tool's schema; it is compiled when it is first asked, which is the only time that takes
    long (its library is loaded)."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._declared = declared
        self._anything = declared in _ANYTHING
        self._flaw: str | None = None
        self._validator: Any = None
        self._growth = 1

    def problem(self, arguments: Mapping[str, Any]) -> str | None:
        """Why these arguments do not fit, or None. No arguments fit a schema that is none."""
        if self._anything:
            return None
        if self._validator is None and self._flaw is None:
            self._compile()
        if self._flaw is not None:
            return self._flaw
        if bounds.too_deep(arguments, self._growth):
            return "the arguments do not fit: they are nested too deeply for the tool's schema"
        if self._validator.is_valid(arguments):
            return None
        errors = list(islice(self._validator.iter_errors(arguments), _SHOWN))
        found = [_shown(error.instance_path, error.message) for error in errors]
        return "the arguments do not fit: " + "; ".join(found)

    def _compile(self) -> None:
        import jsonschema_rs  # on use: it is large

        try:
            self._growth = bounds.growth(self._declared)
            text = jsontext.dumps(self._declared)
            if len(text) > bounds.CHARS:
                raise ValueError(f"it has {len(text)} characters, more than {bounds.CHARS}")
            self._validator = jsonschema_rs.validator_for(
                jsontext.loads(text),
                mask="the value",
                offline=True,
                pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES),
            )
        except ValueError as error:  # theirs and ours are both of this kind
            reason = str(error).strip().splitlines()[0][:300]
            self._flaw = f"the tool cannot be called: its schema is not usable ({reason})"


def _shown(path: list[Any], message: str) -> str:
    place = "/".join(str(part) for part in path)[:200]
    return f"{place}: {message[:300]}" if place else message[:300]
