"""Secrets: by the name of a key, and by known value."""

import pytest

from proctor.kernel.redact import (
    REDACTED,
    Redactor,
    looks_secret,
    secret_settings,
    secret_values,
)


@pytest.mark.parametrize(
    "key",
    ["api_key", "API_KEY", "apiKey", "x-api-key", "OPENAI_API_KEY", "password", "db_passwd",
     "client_secret", "access_token", "token", "Authorization", "aws_access_key_id",
     "private-key", "credentials", "set-cookie", "bearerAuth"],
)  # fmt: skip
def test_keys_that_look_secret(key):
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key",
    ["api_key_env", "API_KEY_ENV", "max_tokens", "maxTokens", "max_completion_tokens",
     "tokenizer", "token_limit", "stop_tokens", "name", "key", "monkey", "author"],
)  # fmt: skip
def test_keys_that_do_not(key):
    assert not looks_secret(key)


def test_configuration_is_redacted_recursively():
    clean = Redactor().config(
        {
            "model": {"api_key": "abc", "max_tokens": 5, "headers": [{"Authorization": "x"}]},
            "input_tokens": 12, "tokens": ["a"], "empty_token": "", "no_token": None,
            "nested": ({"password": {"deep": "x"}},),
        }
    )  # fmt: skip
    assert clean == {
        "model": {"api_key": REDACTED, "max_tokens": 5, "headers": [{"Authorization": REDACTED}]},
        "input_tokens": 12, "tokens": REDACTED, "empty_token": "", "no_token": None,
        "nested": [{"password": REDACTED}],
    }  # fmt: skip


def test_known_values_go_from_every_text_and_key():
    redactor = Redactor(["s3cret-value", "s3cret-value-longer", "short"])
    assert redactor.text("a s3cret-value-longer b s3cret-value") == f"a {REDACTED} b {REDACTED}"
    assert redactor.text("short stays: too short to search for") == (
        "short stays: too short to search for"
    )
    assert redactor.facts({"s3cret-value": ["x s3cret-value", 3]}) == {
        REDACTED: [f"x {REDACTED}", 3]
    }


def test_facts_are_not_touched_by_their_names():
    facts = {"token_match": 1.0, "password": "is the answer"}
    assert Redactor(["other-secret"]).facts(facts) == facts
    assert Redactor().facts(facts) is facts


def test_values_with_odd_characters_are_taken_literally():
    assert Redactor(["a.c+(d)["]).text("abc+(d)[ a.c+(d)[") == f"abc+(d)[ {REDACTED}"


def test_which_values_are_known():
    environ = {"OPENAI_API_KEY": "k1", "PATH": "/bin", "EMPTY_TOKEN": "", "API_KEY_ENV": "NAME"}
    assert secret_values(environ) == ["k1"]
    settings = {"a": [{"api_key": "k2"}], "headers": {"authorization": {"x": ["k3"]}}, "b": "c"}
    assert sorted(secret_settings(settings)) == ["k2", "k3"]
