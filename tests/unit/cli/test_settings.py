"""Layers of settings: which wins, what an other component leaves behind, what a value becomes."""

import pytest

from proctor.cli.settings import FLAG_PLACES, build_settings, request_of, results_dir
from proctor.kernel.errors import OptionError


def built(file=None, flags=None, assignments=()):
    return build_settings(file, flags or {}, assignments)


@pytest.fixture(autouse=True)
def _alone(folder):
    return folder


LAYERS = ("flag", "file", "variable", "project", "default")


@pytest.mark.parametrize("highest", range(5), ids=LAYERS)
def test_the_higher_layer_wins(highest, folder, monkeypatch):
    layers = LAYERS[highest:]
    (folder / "rows.jsonl").write_text("")
    if "project" in layers:
        (folder / "proctor.toml").write_text("[runtime]\ntask_concurrency = 4\n")
    if "variable" in layers:
        monkeypatch.setenv("PROCTOR_CONCURRENCY", "3")
    file = None
    if "file" in layers:
        (folder / "r.yaml").write_text("runtime: {task_concurrency: 2}\n")
        file = "r.yaml"
    flags = {"benchmark": "table", "concurrency": 1 if "flag" in layers else None}
    request = request_of(built(file, flags))
    expected = {"flag": 1, "file": 2, "variable": 3, "project": 4, "default": 8}
    assert request.runtime.task_concurrency == expected[LAYERS[highest]]


def test_an_assignment_wins_over_a_flag():
    flags = {"benchmark": "table", "k": 2}
    request = request_of(built(None, flags, ["execution.attempts.k=5"]))
    assert request.execution.attempts.k == 5


def test_every_flag_has_a_variable(monkeypatch):
    values = {
        "k": "3", "max_retries": "1", "retry_pattern": '["x"]', "keep_environment": "true",
        "tasks": '["a*"]', "limit": "5", "shuffle_seed": "7", "concurrency": "2", "timeout": "9",
        "evaluation_mode": "none", "run_id": "r-1",
    }  # fmt: skip
    for flag in FLAG_PLACES:
        monkeypatch.setenv(f"PROCTOR_{flag.upper()}", values.get(flag, f"{flag}-text"))
    request = request_of(built())
    assert request.benchmark.id == "benchmark-text"
    assert request.benchmark.data == "data-text"
    assert request.model is not None
    assert (request.model.id, request.model.base_url) == ("model-text", "base_url-text")
    assert request.execution.attempts.k == 3
    assert request.execution.attempts.strategy == "strategy-text"
    assert request.execution.retry_pattern_list == ("x",)
    assert request.execution.keep_environment is True
    assert request.selection.model_dump() == {"tasks": ("a*",), "shuffle_seed": 7, "limit": 5}
    assert request.runtime.timeout_s == 9
    assert request.runtime.results_dir == "results-text"


def test_options_of_another_component_are_dropped(folder):
    (folder / "proctor.toml").write_text(
        "[benchmark]\nid = 'gsm8k'\ndata = 'x'\n[harness]\nid = 'command'\ncommand = 'cat'\n"
        "[model]\nid = 'a'\ntemperature = 1\n"
    )
    flags = {"benchmark": "table", "harness": "nop", "model": "b"}
    request = request_of(built(None, flags))
    assert request.benchmark.data is None
    assert request.harness.options == {}
    assert request.model is not None
    assert request.model.options == {}


def test_options_of_the_same_component_add_up(folder):
    (folder / "proctor.toml").write_text(
        "[benchmark]\nid = 'table'\ndata = 'x'\n[benchmark.columns]\ninput = 'q'\n"
    )
    flags = {"benchmark": "table", "data": "y"}
    request = request_of(built(None, flags, ["benchmark.columns.target=a"]))
    assert request.benchmark.data == "y"
    assert request.benchmark.options == {"columns": {"input": "q", "target": "a"}}


def test_a_path_without_a_component_goes_to_whatever_is_chosen(monkeypatch):
    monkeypatch.setenv("PROCTOR_DATA", "rows.jsonl")
    request = request_of(built(None, {"benchmark": "table"}))
    assert request.benchmark.data == "rows.jsonl"


def test_a_group_adds_up_and_is_read_anew_each_time(folder):
    (folder / "proctor.toml").write_text("[execution.attempts]\nk = 1\nstrategy = 'pass'\n")
    settings = built(None, {"benchmark": "table", "k": 2})
    assert request_of(settings).execution.attempts.model_dump() == {"strategy": "pass", "k": 2}
    assert request_of(built(None, {"benchmark": "table"})).execution.attempts.k == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("1.10", "1.10"),
        ("echo a: b", "echo a: b"),
        ("*.py", "*.py"),
        ("{workspace}/run", "{workspace}/run"),
        ("true", "true"),
        ("null", "null"),
        ('"quoted"', '"quoted"'),
        ("[1, 2]", "[1, 2]"),
        ("a=b=c", "a=b=c"),
        (" blanks ", " blanks "),
        ("two\nlines", "two\nlines"),
        ("~/x", "~/x"),
        ("&a *b !c %d @e `f", "&a *b !c %d @e `f"),
        ("08", "08"),
        ("1e3", "1e3"),
    ],
)
def test_text_arrives_as_typed(text, value):
    flags = {"benchmark": "table", "harness": "command"}
    request = request_of(built(None, flags, [f"harness.command={text}"]))
    assert request.harness.options == {"command": value}


@pytest.mark.parametrize(
    ("assignment", "place", "value"),
    [
        ("benchmark.ignore_case=true", ("benchmark", "ignore_case"), True),
        ("benchmark.memory_limit_mb=64", ("benchmark", "memory_limit_mb"), 64),
        ("benchmark.time_limit_s=1.5", ("benchmark", "time_limit_s"), 1.5),
        ("benchmark.time_limit_s=null", ("benchmark", "time_limit_s"), None),
        ('benchmark.columns={"input": "q"}', ("benchmark", "columns"), {"input": "q"}),
        ("benchmark.metric_kind=scalar", ("benchmark", "metric_kind"), "scalar"),
        ("environment.network=public", ("environment", "network"), "public"),
        ("execution.max_retries=2", ("execution", "max_retries"), 2),
        ('execution.retry_pattern_list=["a"]', ("execution", "retry_pattern_list"), ["a"]),
        ("execution.durability=strict", ("execution", "durability"), "strict"),
        ("runtime.results_dir=2024", ("runtime", "results_dir"), "2024"),
        ("selection.shuffle_seed=9007199254740993", ("selection", "shuffle_seed"), 2**53 + 1),
    ],
)  # fmt: skip
def test_a_value_is_what_its_option_declares(assignment, place, value):
    values = built(None, {"benchmark": "table"}, [assignment]).values
    assert values[place[0]][place[1]] == value
    assert type(values[place[0]][place[1]]) is type(value)


def test_the_last_of_a_repeated_key_wins():
    flags = {"benchmark": "table"}
    assignments = ["benchmark.scorer=exact", "benchmark.scorer=numeric"]
    assert built(None, flags, assignments).values["benchmark"]["scorer"] == "numeric"


OPEN_HARNESS = """
from pydantic import BaseModel, ConfigDict
from proctor import Harness
class Options(BaseModel):
    model_config = ConfigDict(extra="allow")
class Open(Harness):
    id = "open"
    Options = Options
    async def start(self, session, task, context): ...
"""


@pytest.mark.parametrize(
    "assignment",
    [
        'harness.api_key="abcdef"',
        'harness.TOKEN="abcdef"',
        'harness.env={"MY_PASSWORD": "abcdef"}',
        'harness.list=[{"clientSecret": "abcdef"}]',
    ],
)
def test_a_secret_is_refused_as_a_flag_and_not_repeated(assignment, folder):
    (folder / "open.py").write_text(OPEN_HARNESS)
    flags = {"benchmark": "table", "harness": "open.py:Open"}
    with pytest.raises(OptionError, match="a secret is never given as a flag") as caught:
        built(None, flags, [assignment])
    assert "abcdef" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("assignment", ["harness.max_tokens=100", 'harness.api_key_env="KEY"'])
def test_names_that_only_look_alike_are_no_secrets(assignment, folder):
    (folder / "open.py").write_text(OPEN_HARNESS)
    flags = {"benchmark": "table", "harness": "open.py:Open"}
    assert len(built(None, flags, [assignment]).values["harness"]) == 2


def test_the_results_directory_alone_has_the_same_layers(folder, monkeypatch):
    assert results_dir(None) == "results"
    (folder / "proctor.toml").write_text("[runtime]\nresults_dir = 'a'\n")
    assert results_dir(None) == "a"
    monkeypatch.setenv("PROCTOR_RESULTS", "b")
    assert results_dir(None) == "b"
    assert results_dir("c") == "c"
