"""What a schema from a stranger may cost."""

import time

import pytest

from proctor.agent import schema_bounds as bounds
from proctor.agent.schemas import Schema


def laughs(levels):
    """Each definition is the next one twice."""
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**twice, f"d{levels}": {"type": "object"}}}


def nested(levels):
    found = {"type": "string"}
    for _ in range(levels):
        found = {"properties": {"a": found}}
    return found


def shared(levels):
    """A tree of 2**levels leaves in a few objects, as Python can hold it."""
    found = {"type": "string"}
    for _ in range(levels):
        found = {"allOf": [found, found]}
    return found


HOSTILE = {
    "references that double": (laughs(40), "its references make it"),
    "too many levels": (nested(1_000), "more than 64 levels"),
    "a chain of references": (
        {
            "$ref": "#/$defs/d0",
            "$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(999)},
        },
        "more than 150 levels",
    ),
    "shared parts": (shared(60), "more than"),
    "many values": ({"enum": list(range(30_000))}, "more than 20000 values"),
    "long": ({"description": "x" * 200_000}, "more than 100000"),
    "many patterns": ({"patternProperties": {f"a{n}": {} for n in range(200)}}, "200 patterns"),
    "a long pattern": ({"properties": {"a": {"pattern": "a" * 2_000}}}, "a pattern has more"),
    "a pattern that becomes large": ({"properties": {"a": {"pattern": "(a{500}){500}"}}}, ""),
    "somewhere else": ({"$ref": "http://127.0.0.1/x"}, "only what begins with #/"),
    "nowhere": ({"$ref": "#/$defs/none"}, "leads nowhere"),
    "an anchor": ({"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}, "#a is not followed"),
    "another base": ({"properties": {"a": {"$id": "urn:x"}}}, "$id is not supported"),
    "dynamic": ({"$dynamicRef": "#a"}, "$dynamicRef is not supported"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_schema_is_refused_at_once(case):
    schema, reason = HOSTILE[case]
    began = time.process_time()
    problem = Schema(schema).problem({"a": "aaaa"})
    assert time.process_time() - began < 5.0
    assert problem is not None
    assert problem.startswith("the tool cannot be called: its schema is not usable")
    assert reason in problem


def deep(levels):
    found = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def test_a_recursion_that_doubles_with_every_level_is_bounded_by_the_arguments():
    again = {"properties": {"a": {"$ref": "#"}}}
    schema = Schema({"anyOf": [{**again, "required": ["x"]}, {**again, "required": ["y"]}]})
    began = time.process_time()
    problem = schema.problem(deep(60))
    assert time.process_time() - began < 5.0
    assert problem == "the arguments do not fit: they are nested too deeply for the tool's schema"
    assert "is not valid under" in schema.problem(deep(3))


TREE = {
    "$ref": "#/$defs/tree",
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "left": {"$ref": "#/$defs/tree"},
                "right": {"$ref": "#/$defs/tree"},
                "$ref": {"type": "string"},
            },
            "additionalProperties": False,
        }
    },
}


def test_a_recursion_that_looks_at_each_place_once_has_no_bound_of_depth():
    assert bounds.growth(TREE) == 1
    chain = {}
    for _ in range(100):
        chain = {"left": chain}
    assert Schema(TREE).problem(chain) is None
    assert "middle" in Schema(TREE).problem({"left": {"middle": {}}})


def test_usual_schemas_are_within_the_bounds():
    value = {"$ref": "#/definitions/value"}
    anything = {
        "$id": "https://example.org/anything",
        "properties": {"value": value},
        "definitions": {
            "value": {"anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": value},
                {"type": "object", "additionalProperties": value},
            ]},
        },
    }  # fmt: skip
    assert bounds.growth(anything) == 2
    assert Schema(anything).problem({"value": deep(10)}) is None
    wide = {"properties": {f"p{n}": {"type": "string", "pattern": "^a+$"} for n in range(90)}}
    assert Schema(wide).problem({"p7": "aa"}) is None
    assert Schema(wide).problem({"p7": "b"}) is not None
    escaped = {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"required": ["x"]}}}
    assert Schema(escaped).problem({"x": 1}) is None
    assert Schema(escaped).problem({}) is not None


# As the libraries make them that MCP servers are written with.
SENT = {
    "Pydantic": {
        "$defs": {
            "Kind": {"enum": ["food", "transport"], "title": "Kind", "type": "string"},
            "Query": {
                "properties": {"kind": {"$ref": "#/$defs/Kind", "description": "which"}},
                "required": ["kind"],
                "type": "object",
            },
        },
        "properties": {"query": {"$ref": "#/$defs/Query"}},
        "required": ["query"],
        "type": "object",
    },
    "zod-to-json-schema, back to the first use": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "first": {"type": "object", "properties": {"kind": {"enum": ["food"]}}},
            "query": {"$ref": "#/properties/first", "required": ["kind"]},
            "operations": {"type": "array", "items": {"anyOf": [
                {"type": "object", "properties": {"at/of": {"type": "string"}}},
                {"$ref": "#/properties/operations/items/anyOf/0/properties/at~1of"},
            ]}},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    "zod 4, with names and a recursion": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"query": {"$ref": "#/$defs/__schema0"}, "more": {"$ref": "#"}},
        "required": ["query"],
        "$defs": {"__schema0": {"id": "query", "type": "object", "properties": {
            "kind": {"type": "string", "enum": ["food"]}}, "required": ["kind"]}},
    },
    "put together": {
        "type": "object",
        "allOf": [{"$ref": "#/definitions/base"}],
        "definitions": {"base": {"type": "object", "properties": {"query": {"type": "object",
            "properties": {"kind": {"const": "food"}}}}, "required": ["query"]}},
    },
}  # fmt: skip


@pytest.mark.parametrize("made_by", SENT)
def test_references_as_servers_send_them_are_followed(made_by):
    schema = Schema(SENT[made_by])
    assert schema.problem({"query": {"kind": "food"}}) is None
    assert "the arguments do not fit" in schema.problem({"query": {"kind": 7}})
    assert "the arguments do not fit" in schema.problem({})
