"""Every refusal: exit 2, one clear message, a document with `--json`, and no run directory."""

import pytest

ROWS = '{"id": "a", "input": "1", "target": "1"}\n{"id": "b", "input": "2", "target": "2"}\n'
RUN = "run --benchmark table --data rows.jsonl --harness nop"

# name: (files, words, parts of the message, parts of the hint)
FLAGS = {
    "nothing": ("run", ["no benchmark"], "give --benchmark ID"),
    "benchmark": (
        "run --benchmark tabel --data rows.jsonl --harness nop",
        ["unknown benchmark 'tabel'"], "did you mean table?",
    ),
    "harness": (
        "run --benchmark table --data rows.jsonl --harness oracel",
        ["unknown harness 'oracel'"], "did you mean oracle?",
    ),
    "environment": (f"{RUN} --environment lokal", ["unknown environment 'lokal'"], "local"),
    "strategy": (f"{RUN} --strategy best", ["unknown strategy 'best'"], "avg, pass"),
    "adapter": (
        f"{RUN} --model scriptd:x",
        ["OPENAI_API_KEY is not set"], "did you mean the adapter scripted:",
    ),
    "no harness": (
        "run --benchmark table --data rows.jsonl", ["'table' needs a harness"], "give --harness"
    ),
    "no data": ("run --benchmark table --harness nop", ["'table' needs data"], "give --data"),
    "data": (
        "run --benchmark table --data row.jsonl --harness nop",
        ["row.jsonl"], "--data takes a file or a folder",
    ),
    "k=0": (f"{RUN} -k 0", ["-k: must be at least 1 (got 0)"], None),
    "k=-1": (f"{RUN} -k -1", ["-k: must be at least 1 (got -1)"], None),
    "limit": (f"{RUN} --limit 0", ["--limit: must be at least 1 (got 0)"], None),
    "concurrency": (f"{RUN} --concurrency 0", ["--concurrency: must be at least 1"], None),
    "retries": (f"{RUN} --max-retries -1", ["--max-retries: must be at least 0"], None),
    "pattern": (
        f"{RUN} --retry-pattern (", ["--retry-pattern: '(' is not a regular expression"], None
    ),
    "NaN": (f"{RUN} --timeout nan", ["--timeout: must be a finite number (got nan)"], None),
    "infinite": (f"{RUN} --timeout inf", ["--timeout: must be a finite number (got inf)"], None),
    "negative": (f"{RUN} --timeout -3", ["--timeout: must be at least 0 (got -3.0)"], None),
    "nothing selected": (f"{RUN} --tasks z*", ["0 tasks selected of 2"], "a, b"),
    "mode": (f"{RUN} --evaluation-mode fresh", ["does not allow"], "allowed: none, reuse"),
    "no mode": (f"{RUN} --evaluation-mode frsh", ["--evaluation-mode: must be 'reuse'"], None),
    "run id": (f"{RUN} --run-id a:b", ["--run-id: run id 'a:b' is not portable"], None),
    "progress": (f"{RUN} --progress fancy", ["unknown --progress 'fancy'"], "auto, none, plain"),
    "results in a file": (
        f"{RUN} --results rows.jsonl/x", ["cannot write to the results directory"], "--results DIR"
    ),
    "results in /proc": (
        f"{RUN} --results /proc/x", ["cannot write to the results directory"], "--results DIR"
    ),
    "list": ("list benchmrks", ["unknown kind 'benchmrks'"], "did you mean benchmarks?"),
    "resume nothing": ("resume gone", ["no such run directory: "], None),
    "resume elsewhere": ("resume .", ["no run_info.json"], "this is not a run directory"),
    "show nothing": ("show gone", ["no such run directory: gone"], None),
    "show a file": ("show rows.jsonl", ["no such run directory: rows.jsonl"], None),
    "validate nothing": ("validate gone.yaml", ["no such file or folder: gone.yaml"], None),
    "validate what": ("validate rows.jsonl", ["cannot tell what rows.jsonl is"], ".yaml"),
    "no file": ("run gone.yaml", ["no such file: gone.yaml"], None),
    "a folder": ("run .", ["cannot read .: Is a directory"], None),
}  # fmt: skip

ASSIGNMENTS = {
    "no value": ("foo", "'foo' is not KEY=VALUE", "benchmark.scorer=numeric"),
    "no group": ("foo=1", "'foo=1' is not KEY=VALUE", "GROUP.OPTION"),
    "no key": ("=1", "'=1' is not KEY=VALUE", "GROUP.OPTION"),
    "group": ("bench.scorer=1", "-p bench.scorer: unknown group", "did you mean benchmark?"),
    "key": ("benchmark.scorr=exact", "unknown option benchmark.scorr", "did you mean scorer?"),
    "key of a group": (
        "benchmark.columns.inptu=q", "unknown option benchmark.columns.inptu", "input?"
    ),
    "runtime": ("runtime.results=x", "unknown option runtime.results", "did you mean results_dir?"),
    "value": ("benchmark.ignore_case=no", "'no' is not JSON", "expected true or false"),
    "number": ("execution.max_retries=two", "'two' is not JSON", "expected a whole number"),
    "wrong type": ("execution.max_retries=1.5", "-p execution.max_retries: must be a whole", None),
    "text for a number": ('execution.max_retries="1"', "must be a whole number (got '1')", None),
    "infinite": ("execution.retry_backoff_s=Infinity", "Infinity is not JSON", "a number"),
    "huge": ("execution.retry_backoff_s=1e999", "number out of range", "a number"),
    "NaN": ("benchmark.tolerance=NaN", "NaN is not JSON", "a number"),
    "scorer": ("benchmark.scorer=exakt", "unknown scorer 'exakt'", "did you mean exact?"),
    "no options": ("harness.x=1", "harness.x: this harness takes no options", None),
    "no model": ("model.temperature=1", "the request names no model", "give --model"),
    "has a flag": ("benchmark.data=x", "-p benchmark.data is not an option", "give --data"),
    "not a group": ("execution.attempts=2", "must be a group of settings", None),
}  # fmt: skip

FILES = {
    "not YAML": ("benchmark: {id: table\nfoo: ]\n", ["r.yaml, line 2, column 4: "], None),
    "tab": ("a:\n\t- x\n", ["r.yaml, line 2, column 1: "], None),
    "twice": (
        "benchmark: table\nbenchmark: x\n",
        ["r.yaml, line 2, column 1: the key 'benchmark' is given twice"], None,
    ),
    "a list": ("- a\n", ["r.yaml: a request must be a mapping, found a list"], None),
    "empty": ("# nothing\n", ["r.yaml: the file is empty"], "a benchmark"),
    "two documents": ("a: 1\n---\nb: 2\n", ["r.yaml, line 2, column 1: "], None),
    "code": ('x: !!python/name:os.system ""\n', ["r.yaml, line 1, column 4: "], None),
    "itself": ("benchmark: &a {id: *a}\n", ["line 1, column 12: an anchor is used inside"], None),
    "laughs": (
        "a: &a [" + "x," * 99 + "]\nb: &b [" + "*a," * 99 + "]\nc: [" + "*b," * 99 + "]\n",
        ["r.yaml, line 3, column 4: more than 100000 values"], None,
    ),
    "deep": (
        "a: " + "[" * 2000 + "]" * 2000 + "\n",
        ["r.yaml, line 1, column ", "nested deeper than 100 levels"], None,
    ),
    "unknown key": (
        "benchmark: {id: table, data: rows.jsonl}\nharnes: nop\n",
        ["r.yaml: harnes: unknown key"], "did you mean harness?",
    ),
    "unknown option": (
        "benchmark: {id: table, data: rows.jsonl, scorr: exact}\nharness: nop\n",
        ["r.yaml: benchmark.scorr: unknown option"], "did you mean scorer?",
    ),
    "several": (
        "benchmark: {id: table, data: rows.jsonl}\nharness: nop\n"
        "execution: {attempts: {k: 0}, max_retries: -1, retry_backoff_s: .nan}\n",
        [
            "r.yaml: execution.attempts.k: must be at least 1 (got 0)",
            "r.yaml: execution.max_retries: must be at least 0 (got -1)",
            "r.yaml: execution.retry_backoff_s: must be a finite number",
        ], None,
    ),
    "k: true": (
        "benchmark: {id: table, data: rows.jsonl}\nharness: nop\n"
        "execution: {attempts: {k: true}}\n",
        ["r.yaml: execution.attempts.k: must be a whole number (got True)"], None,
    ),
    "keep: no": (
        "benchmark: {id: table, data: rows.jsonl}\nharness: nop\n"
        "execution: {keep_environment: 'no'}\n",
        ["r.yaml: execution.keep_environment: must be true or false (got 'no')"], None,
    ),
    "one glob": (
        "benchmark: {id: table, data: rows.jsonl}\nharness: nop\nselection: {tasks: a}\n",
        ["r.yaml: selection.tasks: must be a list (got 'a')"], None,
    ),
    "id: 7": ("benchmark: {id: 7}\n", ["r.yaml: benchmark.id: must be text (got 7)"], None),
    "benchmark: 7": ("benchmark: 7\n", ["benchmark: must be a group of settings"], None),
    "version": (
        "version: 2\nbenchmark: {id: table, data: rows.jsonl}\nharness: nop\n",
        ["r.yaml: version: must be 1 (got 2)"], None,
    ),
    "pattern": (
        "benchmark: {id: table, data: rows.jsonl}\nharness: nop\n"
        "execution: {retry_pattern_list: ['[']}\n",
        ["r.yaml: execution.retry_pattern_list: '[' is not a regular expression"], None,
    ),
    "no command": (
        "benchmark: {id: table, data: rows.jsonl}\nharness: command\n",
        ["harness.command: is required"], "give -p harness.command=VALUE",
    ),
    "headings only": (
        "benchmark: {id: table, data: rows.jsonl}\nharness:\nexecution:\n",
        ["'table' needs a harness"], "give --harness",
    ),
}  # fmt: skip


def refused(proctor, folder, words: list[str], message: list[str], hint: str | None) -> None:
    answer = proctor(*words, "--json")
    document = answer.document
    assert answer.code == 2, answer.err
    assert (document["status"], document["runs"]) == ("refused", [])
    error = document["error"]
    assert [part for part in message if part not in error["message"]] == [], error
    if hint is not None:
        assert hint in (error["hint"] or ""), error
    assert answer.err.startswith(f"proctor: {error['message']}\n")
    assert "Traceback" not in answer.err
    assert list(folder.rglob("run_info.json")) == []


@pytest.fixture(autouse=True)
def rows(folder):
    (folder / "rows.jsonl").write_text(ROWS)


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name, proctor, folder):
    words, message, hint = FLAGS[name]
    refused(proctor, folder, words.split(), message, hint)


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignments(name, proctor, folder):
    assignment, message, hint = ASSIGNMENTS[name]
    refused(proctor, folder, [*RUN.split(), "-p", assignment], [message], hint)


@pytest.mark.parametrize("name", FILES)
def test_request_files(name, proctor, folder):
    text, message, hint = FILES[name]
    (folder / "r.yaml").write_text(text)
    refused(proctor, folder, ["run", "r.yaml"], message, hint)
    checked = proctor("validate", "r.yaml", "--json")
    assert checked.code == 2
    assert message[0] in checked.document["problems"][0]


def test_a_file_that_is_no_text(proctor, folder):
    (folder / "r.yaml").write_bytes(b"\xff\xfe")
    refused(proctor, folder, ["run", "r.yaml"], ["r.yaml: not UTF-8 at byte 0"], None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("frob", "No such command 'frob'"),
        ("run --frob", "No such option: --frob"),
        ("run -k x", "Invalid value for '-k'"),
        ("show", "Missing argument"),
        ("list", "Missing argument"),
        ("show . --limit -1", "--limit"),
        ("version extra", "extra"),
    ],
)
def test_usage(words, message, proctor, folder):
    answer = proctor(*words.split(), "--json")
    assert answer.code == 2
    assert answer.document["status"] == "refused"
    assert answer.document["error"]["code"] == "usage"
    assert message in answer.document["error"]["message"]
    assert message in answer.err
    assert "Try 'proctor" in answer.err


def test_an_existing_run_id(proctor, folder):
    words = [*RUN.split(), "--run-id", "x"]
    assert proctor(*words).code == 0
    again = proctor(*words, "--json")
    assert again.code == 2
    assert "run 'x' exists already" in again.document["error"]["message"]
    assert "another --run-id" in again.document["error"]["hint"]


def test_tasks_and_attempts_that_are_not_there(proctor, folder):
    assert proctor(*RUN.split(), "--run-id", "x").code == 0
    run = "results/table/nop/none/x"
    for words, message, hint in (
        (["--task", "A"], "has no task 'A'", "a"),
        (["--task", "a", "--attempt", "2"], "no finished attempt 2", "finished attempts: 1"),
        (["--attempt", "1"], "--attempt needs --task", "--task ID"),
        (["--state", "norml"], "unknown state 'norml'", "did you mean normal?"),
    ):
        answer = proctor("show", run, *words, "--json")
        assert answer.code == 2
        assert message in answer.document["error"]["message"]
        assert hint in answer.document["error"]["hint"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "proctor.toml: "),
        ("[runtime]\ntask_concurrency = 0", "proctor.toml: runtime.task_concurrency: must be"),
        ("[runtme]\nx = 1", "proctor.toml: runtme: unknown key"),
    ],
)
def test_project_files(text, message, proctor, folder):
    (folder / "proctor.toml").write_text(text)
    refused(proctor, folder, RUN.split(), [message], None)


def test_variables(proctor, folder, monkeypatch):
    monkeypatch.setenv("PROCTOR_K", "many")
    refused(proctor, folder, RUN.split(), ["PROCTOR_K: 'many' is not JSON"], "PROCTOR_K=3")
    monkeypatch.setenv("PROCTOR_K", "0")
    refused(proctor, folder, RUN.split(), ["PROCTOR_K: must be at least 1 (got 0)"], None)


def test_a_setting_that_another_layer_replaces_is_not_complained_about(proctor, folder):
    (folder / "proctor.toml").write_text("[execution.attempts]\nk = 0\n")
    assert proctor(*RUN.split(), "-k", "1").code == 0


def test_a_variable_that_is_nearly_a_setting_is_told(proctor, folder, monkeypatch):
    monkeypatch.setenv("PROCTOR_CONCURENCY", "3")
    monkeypatch.setenv("PROCTOR_TASK_ID", "3")
    answer = proctor(*RUN.split())
    assert answer.code == 0
    assert "PROCTOR_CONCURENCY is not a setting; did you mean PROCTOR_CONCURRENCY?" in answer.err
    assert "PROCTOR_TASK_ID" not in answer.err
