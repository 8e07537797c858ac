"""Variables from the host reach a task only as declared, and secrets only when allowed."""

from proctor.benchmarks.harbor.templates import HostVariables

HOST = {"PLAIN": "value", "EMPTY": "", "MY_API_KEY": "s3cret-value"}


def resolve(declared, allowed=()):
    return HostVariables(HOST, allowed).resolve("verifier.env", declared)


def test_values_and_defaults():
    found = resolve(
        {
            "A": "plain text",
            "B": "${PLAIN}",
            "C": "${MISSING:-fallback}",
            "D": "x${PLAIN}y${PLAIN:-z}",
            "E": "${EMPTY:-empty}",
            "F": "${EMPTY}",
            "G": "${MISSING:-}",
            "H": "$PLAIN ${1X} $${}",
        }
    )
    assert found.problems == ()
    assert found.values == {
        "A": "plain text",
        "B": "value",
        "C": "fallback",
        "D": "xvalueyvalue",
        "E": "empty",
        "F": "",
        "G": "",
        "H": "$PLAIN ${1X} $${}",
    }


def test_a_missing_variable_is_named():
    found = resolve({"A": "${MISSING}"})
    assert "A" not in found.values
    assert found.problems == (
        "task.toml: verifier.env.A needs the host variable MISSING, which is not set: "
        "export it, or edit task.toml",
    )


def test_a_secret_is_given_only_when_the_user_allows_it():
    refused = resolve({"KEY": "${MY_API_KEY}"})
    assert refused.values == {}
    assert "-p benchmark.host_env='[\"MY_API_KEY\"]'" in refused.problems[0]
    assert "s3cret" not in repr(refused)
    with_default = resolve({"KEY": "${MY_API_KEY:-none}"})
    assert with_default.values == {"KEY": "none"}
    allowed = resolve({"KEY": "Bearer ${MY_API_KEY}"}, ["MY_API_KEY"])
    assert allowed.values == {"KEY": "Bearer s3cret-value"}
    assert allowed.identity == {"KEY": "Bearer ${MY_API_KEY}"}


def test_a_name_that_cannot_be_a_variable():
    found = resolve({"A=B": "x", "C": "nul\0"})
    assert len(found.problems) == 2
    assert found.values == {}
