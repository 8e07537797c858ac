"""task.toml: both forms, every section, and one precise message for each mistake."""
# ruff: noqa: E501 - one case a line

import pytest

from proctor.benchmarks.harbor.config import ConfigError, parse
from proctor.benchmarks.harbor.place import phases_of
from proctor.environments.network import NetworkMode

LEGACY = b"""
version = "1.0"
[metadata]
name = "x"
[verifier]
timeout_sec = 120.0
[agent]
timeout_sec = 300
[environment]
build_timeout_sec = 600.0
cpus = 1
memory = "2G"
storage = "512M"
allow_internet = false
mcp_servers = []
"""

CURRENT = b"""
schema_version = "1.4"
source = "somewhere"
artifacts = ["/app/out", { source = "/app/log.txt", destination = "logs/app.txt", exclude = ["*.tmp"] }]
unknown_key = 1

[task]
name = "org/fix-it"
version = "2"
description = "d"
keywords = ["a"]
authors = [{ name = "N", email = "n@example.org" }, { name = "M" }]

[agent]
timeout_sec = 10
user = 1000
network_mode = "no-network"

[verifier]
timeout_sec = 5
env = { A = "1" }
user = "root"
network_mode = "allowlist"
allowed_hosts = ["PyPI.example.", "*.Example.org", "10.0.0.0/8", "::1"]
unknown = [1]
[[verifier.collect]]
command = "make report"

[environment]
docker_image = "img:1"
os = "Linux"
cpus = 0.5
memory_mb = 100
storage_mb = 200
gpus = 1
gpu_types = ["h100"]
tpu = { type = "v5", topology = "2x4" }
env = { B = "2" }
workdir = "/w"
skills_dir = "/skills"
mcp_servers = [
  { name = "one", url = "http://x", headers = { Authorization = "Bearer ${TOKEN}" } },
  { name = "two", transport = "stdio", command = "run", args = ["-x"] },
  { name = "three", transport = "http", url = "http://y" },
]
healthcheck = { command = "true" }

[solution]
env = { C = "3" }
"""


def test_the_legacy_form():
    config = parse(LEGACY)
    assert config.schema_version == "1.0"
    assert (config.agent.timeout_sec, config.verifier.timeout_sec) == (300.0, 120.0)
    assert config.environment.memory_wish_mb == 2048
    assert config.environment.storage_wish_mb == 512
    assert config.environment.baseline_mode == "no-network"
    assert phases_of(config).evaluation.mode is NetworkMode.NO_NETWORK


def test_the_current_form():
    config = parse(CURRENT)
    assert config.task is not None
    assert config.task.name == "org/fix-it"
    assert [a.source for a in config.artifacts] == ["/app/out", "/app/log.txt"]
    assert config.artifacts[1].destination == "logs/app.txt"
    assert config.verifier.collect[0].timeout_sec == 60.0
    assert config.environment.mcp_servers[0].transport == "sse"
    assert config.environment.healthcheck is not None
    assert config.environment.healthcheck.retries == 3
    phases = phases_of(config)
    assert phases.baseline.mode is NetworkMode.PUBLIC
    assert phases.run.mode is NetworkMode.NO_NETWORK
    assert phases.evaluation.hosts == ("pypi.example", "*.example.org", "10.0.0.0/8", "::1")
    assert phases.switches


def test_defaults():
    config = parse(b"")
    assert config.schema_version == "1.4"
    assert config.agent.timeout_sec is None
    assert config.verifier.timeout_sec == 600.0
    assert not config.verifier.separate
    assert not config.portable
    assert not phases_of(config).switches


def test_a_verifier_with_an_environment_is_separate_unless_it_contradicts():
    assert parse(b"[verifier.environment]\ncpus = 1\n").verifier.separate
    assert parse(b'[verifier]\nenvironment_mode = "separate"\n').verifier.separate
    with pytest.raises(ConfigError, match="exclude each other"):
        parse(b'[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\n')


def test_network_mode_wins_over_allow_internet():
    config = parse(b'[environment]\nallow_internet = true\nnetwork_mode = "no-network"\n')
    assert config.environment.baseline_mode == "no-network"


@pytest.mark.parametrize(
    ("size", "megabytes"), [("1024K", 1), ("1K", 1), ("1.5g", 1536), ("3MB", 3)]
)
def test_legacy_sizes(size, megabytes):
    config = parse(f'[environment]\nmemory = "{size}"\n'.encode())
    assert config.environment.memory_wish_mb == megabytes


BAD = [
    ("a =\n", "task.toml is not valid TOML: Invalid value (at line 1, column 4)"),
    ("a = 1\na = 2\n", "(at line 2, column 6)"),
    ("a = " + "9" * 5000, "task.toml is not valid TOML: Exceeds the limit (4300 digits)"),
    ("a = " + "[" * 5000, "task.toml is not valid TOML: "),
    ("version = 1.0", "task.toml: version: must be text, found 1.0"),
    ('version = "2.0"', "schema version '2.0' is not known (known: 1.0 to 1.4)"),
    ('[agent]\ntimeout_sec = "5"', "agent.timeout_sec: must be a number, found '5'"),
    ("[agent]\ntimeout_sec = true", "agent.timeout_sec: must be a number, found True"),
    ("[agent]\ntimeout_sec = nan", "agent.timeout_sec: must be a finite number, found nan"),
    ("[agent]\ntimeout_sec = inf", "agent.timeout_sec: must be a finite number, found inf"),
    ("[verifier]\ntimeout_sec = 0", "verifier.timeout_sec: input should be greater than 0, found 0"),
    ("agent = 3", "task.toml: agent: must be a table, found 3"),
    ("steps = 3", "task.toml: steps: must be an array, found 3"),
    ("[[steps]]", "task.toml: steps.0.name: is missing"),
    ('[[steps]]\nname = "a/b"', "must be the name of one portable folder"),
    ('[[steps]]\nname = "con"', "must be the name of one portable folder"),
    ('[[steps]]\nname = "é"\n[[steps]]\nname = "É"', "name the same folder"),
    ('[task]\nname = "plain"', "task.name: must have the form org/name"),
    ('[task]\nname = "a/.b"', "task.name: must have the form org/name"),
    ('[task]\nname = "a/b..c"', "task.name: must have the form org/name"),
    ("[verifier.env]\nA = 1", "verifier.env.A: must be text, found 1"),
    ('[environment]\nos = "plan9"', "environment.os: input should be 'linux' or 'windows'"),
    ("[environment]\ncpus = -1", "environment.cpus: input should be greater than 0"),
    ('[environment]\nmemory_mb = "2G"', "environment.memory_mb: must be a whole number, found '2G'"),
    ('[environment]\nmemory = "2X"', "memory must be a size such as '2G'"),
    ('[environment]\nmemory = "0G"', "memory must be a size such as '2G'"),
    ('[environment]\nmemory = "2G"\nmemory_mb = 1', "memory = '2G' contradicts memory_mb = 1"),
    ('[environment]\nworkdir = "app"', "workdir must be an absolute path: 'app'"),
    ('[environment]\nallowed_hosts = ["a"]', "allowed_hosts needs network_mode = 'allowlist'"),
    ('[agent]\nnetwork_mode = "some"', "agent.network_mode: input should be 'public'"),
    ('[environment]\ntpu = { type = "v5", topology = "big" }', "environment.tpu.topology"),
    ('[environment]\nmcp_servers = [{ name = "x" }]', "transport 'sse' needs a url"),
    ('[environment]\nmcp_servers = [{ name = "x", transport = "stdio" }]', "needs a command"),
    (
        '[environment]\nmcp_servers = [{ name = "x", url = "http://x", headers = { X-Api-Key = "k" } }]',
        "header 'X-Api-Key' must not hold a credential",
    ),
    ('artifacts = ["../x"]', "artifacts.0: source must be a path without '..'"),
    ("artifacts = [3]", "artifacts.0: must be text or a table, found 3"),
    ('artifacts = [{ source = "/x", destination = "/y" }]', "destination must be a relative path"),
    ('artifacts = [{ source = "/x", destination = "manifest.json" }]', "not manifest.json"),
    ('artifacts = [{ source = "x", service = "db" }]', "of service 'db' must be an absolute path"),
    ('[metadata]\nportable = "yes"', "metadata.portable must be true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[t[:40] for t, _ in BAD])
def test_one_precise_message_for_each_mistake(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text.encode())
    assert len(caught.value.problems) == 1
    assert message in caught.value.problems[0]


def test_all_mistakes_are_listed():
    with pytest.raises(ConfigError) as caught:
        parse(b'[agent]\ntimeout_sec = "a"\n[verifier]\ntimeout_sec = "b"\n')
    assert len(caught.value.problems) == 2


def test_not_utf8():
    with pytest.raises(ConfigError, match=r"task\.toml is not UTF-8 \(byte 8\)"):
        parse(b'name = "\xff"')


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm():
    assert (
        parse(b'\xef\xbb\xbfversion = "1.0"\r\n[agent]\r\ntimeout_sec = 3\r\n').schema_version
        == "1.0"
    )


@pytest.mark.parametrize(
    "host",
    ["http://a.b", "a.b/c", "a.b:80", "[::1]", "10.0.0.1/8", "a..b", "-a.b", "*", "a.*.b", "1.2.3", "a b",
     "", "x" * 64 + ".org"],
)  # fmt: skip
def test_what_is_not_an_allowed_host(host):
    text = f'[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["{host}"]\n'
    with pytest.raises(ConfigError, match=r"is not an allowed host|looks like an IP address"):
        parse(text.encode())
