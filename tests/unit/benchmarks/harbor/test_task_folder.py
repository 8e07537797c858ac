"""A task folder becomes a TaskSpec; an unusable one says precisely why."""
# ruff: noqa: E501 - one case a line

import os
import socket
import tempfile
from pathlib import Path

import pytest
from tests.unit.benchmarks.harbor.folders import MINIMAL, PORTABLE, write

from proctor.benchmarks.harbor import load_folder
from proctor.benchmarks.harbor.folder import LoadSettings
from proctor.benchmarks.harbor.instruction import strip_canary
from proctor.benchmarks.harbor.templates import HostVariables
from proctor.benchmarks.harbor.tree import Limits
from proctor.environments.network import NetworkMode


def toml(text):
    return {"task.toml": text}


def test_a_whole_task(tmp_path):
    folder = write(
        tmp_path / "fix",
        MINIMAL,
        toml(
            'version = "1.0"\n[metadata]\ncategory = "bugs"\nwhen = 2024-01-02\nodd = nan\n'
            "[agent]\ntimeout_sec = 9\n[verifier]\ntimeout_sec = 5.0\n[verifier.env]\nA = '${B:-c}'\n"
            '[environment]\ncpus = 2\nmemory = "2G"\nallow_internet = false\nenv = { X = "1" }\n'
            "[solution.env]\nKEY = 'k'\n"
        ),
        {
            "instruction.md": "# a canary line\r\n<!-- Canary -->\n\n\nDo it.\n",
            "solution/solve.sh": "true\n",
        },
    )
    task = load_folder(folder)
    assert (task.id, task.input, task.category, task.invalid) == ("fix", "Do it.\n", "bugs", None)
    assert task.metadata["when"] == "2024-01-02"
    assert task.metadata["odd"] == "nan"
    assert (task.agent_timeout_s, task.evaluation_timeout_s) == (9.0, 35.0)
    assert task.environment.absolute_paths
    assert task.environment.network.run.mode is NetworkMode.NO_NETWORK
    assert (task.environment.resources.cpus, task.environment.resources.memory_mb) == (2.0, 2048)
    assert task.environment.env == {"X": "1"}
    assert task.reference is not None
    assert (task.reference.folder, task.reference.script) == (folder / "solution", "solve.sh")
    assert task.reference.env == {"KEY": "k"}
    assert task.data.env == {"A": "c"}
    assert task.data.timeout_s == 5.0


def test_defaults(tmp_path):
    task = load_folder(write(tmp_path / "t", MINIMAL))
    assert task.reference is None
    assert task.agent_timeout_s is None
    assert task.evaluation_timeout_s == 630.0
    assert task.category is None


def test_the_task_name_is_the_id(tmp_path):
    task = load_folder(write(tmp_path / "t", MINIMAL, toml('[task]\nname = "org/x"\n')))
    assert task.id == "org/x"


def test_a_prebuilt_image_needs_no_environment_folder(tmp_path):
    files = {"environment/Dockerfile": None}
    text = '[environment]\ndocker_image = "img:1"\nworkdir = "/w"\n'
    task = load_folder(write(tmp_path / "t", MINIMAL, files, toml(text)))
    assert task.invalid is None
    assert (task.environment.image, task.environment.workdir) == ("img:1", "/w")


BAD_FOLDERS = [
    ({"instruction.md": None}, "instruction.md is missing"),
    ({"instruction.md": " \n\n"}, "instruction.md is empty"),
    ({"instruction.md": "<!-- canary -->\n"}, "instruction.md is empty"),
    ({"instruction.md": b"a\xff"}, "instruction.md is not UTF-8 (byte 1)"),
    ({"tests/test.sh": None}, "tests/test.sh is missing"),
    ({"environment/Dockerfile": None}, "environment/ is missing (and there is no environment.docker_image)"),
    ({"environment/Dockerfile": None, "environment/x": ""}, "environment/Dockerfile is missing"),
    ({"environment/Dockerfile": None, "environment": "a file"}, "environment must be a folder, not a link or file"),
    (toml("a ="), "task.toml is not valid TOML: Invalid value (at end of document)"),
    (toml(b"\xff"), "task.toml is not UTF-8 (byte 0)"),
    (toml(b"a = '" + b"x" * 5_000_000 + b"'"), "task.toml is larger than 4,000,000 bytes"),
    (toml('[environment.env]\nA = "${NOT_THERE}"'), "task.toml: environment.env.A needs the host variable NOT_THERE, which is not set: export it, or edit task.toml"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "message"), BAD_FOLDERS, ids=[m[:40] for _, m in BAD_FOLDERS])
def test_one_message_for_each_odd_folder(tmp_path, files, message):
    base = {
        k: v for k, v in MINIMAL.items() if not ("environment" in files and k.startswith("env"))
    }
    task = load_folder(write(tmp_path / "odd", base, files), LoadSettings(host=HostVariables({})))
    assert task.id == "odd"
    assert message in (task.invalid or "").split("; ")


STEP = {"steps/one/instruction.md": "Do one."}
UNSUPPORTED = [
    ('[[steps]]\nname = "one"\n[steps.agent]\nnetwork_mode = "no-network"', STEP, "steps.one: a network policy of its own (agent.network_mode)"),
    ('[[steps]]\nname = "one"\n[steps.verifier]\nenvironment_mode = "separate"', STEP, "steps.one: a separate verifier"),
    ('[[steps]]\nname = "one"\n[steps.agent]\nuser = "dev"', STEP, "steps.one: agent.user = 'dev'"),
    ('[[steps]]\nname = "one"', {**STEP, "steps/one/trajectory.json": "{}"}, "steps.one: prior context (trajectory.json)"),
    ('[verifier]\nenvironment_mode = "separate"\n[[steps]]\nname = "one"', STEP, "a separate verifier of a task with steps"),
    ('[environment]\nos = "Windows"', {}, "environment.os = 'windows'"),
    ("", {"environment/docker-compose.yaml": "services: {db: {image: x}}"}, "environment/docker-compose.yaml: the service 'db' (only `main` is run)"),
    ("", {"environment/compose.yml": "services: {main: {privileged: true}}"}, "environment/compose.yml: services.main.privileged"),
    ('[verifier.environment]\nskills_dir = "/s"', {}, "verifier.environment.skills_dir"),
    ('[verifier.environment]\nos = "windows"', {}, "verifier.environment.os = 'windows'"),
    ('[verifier]\nenvironment_mode = "separate"\n[metadata]\nportable = true', {"tests/Dockerfile": "FROM x"}, "an image of its own for the verifier of a portable task"),
    ('[environment]\nmcp_servers = [{ name = "m", url = "http://x" }]', {}, "environment.mcp_servers (m)"),
    ('[environment]\ntpu = { type = "v5", topology = "2x4" }', {}, "environment.tpu"),
    ('[environment]\ngpus = 1\ngpu_types = ["h100"]', {}, "environment.gpu_types"),
    ('[environment]\nskills_dir = "/s"', {}, "environment.skills_dir"),
    ("", {"trajectory.json": "{}"}, "prior context (trajectory.json)"),
    ('[agent]\nuser = "dev"', {}, "agent.user = 'dev'"),
    ("[verifier]\nuser = 1000", {}, "verifier.user = 1000"),
    ('artifacts = [{ source = "/x", service = "db" }]', {}, "the service 'db'"),
    ('[[verifier.collect]]\ncommand = "x"\nservice = "db"', {}, "the service 'db'"),
    ('[[verifier.collect]]\ncommand = "x"\nuser = "dev"', {}, "verifier.collect.user"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "files", "reason"), UNSUPPORTED, ids=[r for *_, r in UNSUPPORTED])
def test_what_is_not_honoured_yet_is_said(tmp_path, text, files, reason):
    task = load_folder(write(tmp_path / "t", MINIMAL, toml(text), files))
    assert task.invalid == f"not supported yet: {reason}"


def test_several_problems_are_all_said(tmp_path):
    files = {"instruction.md": None, "tests/test.sh": None}
    task = load_folder(write(tmp_path / "t", MINIMAL, files))
    assert task.invalid == "instruction.md is missing; tests/test.sh is missing"


def test_links_must_stay_in_their_part_of_the_task(tmp_path):
    folder = write(tmp_path / "t", MINIMAL, {"environment/a": "a", "tests/data/x": "x"})
    secret = tmp_path / "secret"
    secret.write_text("host file")
    (folder / "environment/out").symlink_to(secret)
    (folder / "environment/up").symlink_to("../tests/data")
    (folder / "environment/gone").symlink_to("nothing")
    (folder / "environment/fine").symlink_to("a")
    (folder / "tests/also-fine").symlink_to("data")
    assert (load_folder(folder).invalid or "").split("; ") == [
        "environment/gone is a link to nothing",
        "environment/out is a link that leaves environment/",
        "environment/up is a link that leaves environment/",
    ]


@pytest.mark.parametrize("name", ["instruction.md", "task.toml"])
def test_single_files_must_not_be_links_out(tmp_path, name):
    folder = write(tmp_path / "t", MINIMAL)
    outside = tmp_path / "outside"
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    assert load_folder(folder).invalid == f"{name} is a link that leaves the task folder"


def test_a_linked_part_is_refused(tmp_path):
    folder = write(tmp_path / "t", MINIMAL)
    (folder / "tests").rename(tmp_path / "elsewhere")
    (folder / "tests").symlink_to(tmp_path / "elsewhere")
    assert "tests must be a folder, not a link or file" in (load_folder(folder).invalid or "")


def test_special_files_are_refused_without_waiting_for_them(tmp_path, monkeypatch):
    folder = write(tmp_path / "t", MINIMAL)
    os.mkfifo(folder / "environment/pipe")
    assert load_folder(folder).invalid == "environment/pipe is not a regular file"
    os.unlink(folder / "environment/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(folder)  # the path of a socket must be short
        listener.bind("tests/sock")
        assert load_folder(folder).invalid == "tests/sock is not a regular file"
    os.unlink(folder / "tests/sock")
    os.unlink(folder / "task.toml")
    os.mkfifo(folder / "task.toml")
    assert load_folder(folder).invalid == "task.toml is not a regular file"


def test_names_that_are_not_utf8(tmp_path):
    folder = write(tmp_path / "t", MINIMAL)
    with open(os.fsencode(folder) + b"/environment/caf\xe9", "wb"):
        pass
    assert load_folder(folder).invalid == "the name of environment/caf\\udce9 is not UTF-8"


def test_a_folder_name_that_is_no_id(tmp_path):
    folder = write(tmp_path / " padded ", MINIMAL)
    task = load_folder(folder)
    assert task.id == "padded"
    assert task.invalid == "the folder's name has blanks around it: rename it"
    odd = os.fsdecode(b"caf\xe9")
    write(tmp_path / odd, MINIMAL, {"tests/test.sh": None})
    assert load_folder(tmp_path / odd).id == "caf\\udce9"


def test_ten_thousand_files_are_refused_with_a_way_out(tmp_path):
    folder = write(tmp_path / "t", MINIMAL)
    for n in range(10_000):
        os.mknod(folder / f"environment/f{n}")
    assert load_folder(folder).invalid == (
        "holds more than 5,000 files: raise the limit with -p benchmark.max_files=N "
        "if that is meant"
    )


def test_the_limit_of_files_can_be_raised(tmp_path):
    folder = write(tmp_path / "t", MINIMAL, {f"environment/f{n}": "" for n in range(20)})
    assert load_folder(folder, LoadSettings(Limits(files=24))).invalid is None
    refused = load_folder(folder, LoadSettings(Limits(files=23))).invalid
    assert refused is not None
    assert refused.startswith("holds more than 23 files")


def test_too_many_bytes_are_refused_without_reading_them(tmp_path):
    folder = write(tmp_path / "t", MINIMAL)
    with open(folder / "environment/huge", "wb") as file:
        file.truncate(10**13)  # sparse: reading it would take hours
    assert (load_folder(folder).invalid or "").startswith(
        "holds more than 2,048 MB: raise the limit"
    )


def test_an_unreadable_file_is_named():
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        folder = write(Path(top, "t"), MINIMAL, {"environment/locked": "x"})
        (folder / "environment/locked").chmod(0)
        assert as_nobody(lambda: load_folder(folder).invalid) == (
            f"cannot read {folder}/environment/locked: Permission denied"
        )


def as_nobody(question):
    """The answer of a process without root's rights, which read everything."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        os.write(writing, str(question()).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        answer = file.read().decode()
    os.waitpid(pid, 0)
    return answer


def test_a_solution_that_lacks_a_host_variable_leaves_the_task_usable(tmp_path):
    files = {"solution/solve.sh": "true", **toml('[solution.env]\nK = "${NOT_THERE}"')}
    task = load_folder(write(tmp_path / "t", MINIMAL, files), LoadSettings(host=HostVariables({})))
    assert task.invalid is None
    assert task.reference is None
    assert "needs the host variable NOT_THERE" in task.metadata["no_reference"]


def test_a_portable_task(tmp_path):
    task = load_folder(write(tmp_path / "t", PORTABLE))
    assert not task.environment.absolute_paths
    assert task.environment.copies == ()


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("Do it.", "Do it."),
        ("# canary GUID 1\nDo it.", "Do it."),
        ("<!-- BIG CANARY -->\n\n \nDo it.\n", "Do it.\n"),
        ("<!-- canary -->\r\n# Canary\r\n\r\n  Do it.", "  Do it."),
        ("<!--\n x canary\n y\n-->\nDo it.", "Do it."),
        ("# Title\n# canary\n", "# Title\n# canary\n"),
        ("<!-- note --> text canary -->\n", "<!-- note --> text canary -->\n"),
        ("\n\nDo it.", "\n\nDo it."),
        ("# canary", ""),
        ("a canary sings\n", "a canary sings\n"),
    ],
)
def test_canary_lines(text, stripped):
    assert strip_canary(text) == stripped


def test_digests_follow_what_they_identify(tmp_path):
    files = {"environment/a": "a", "solution/solve.sh": "s"}
    base = load_folder(write(tmp_path / "0" / "t", MINIMAL, files))

    def changed(number, *parts, settings=None):
        task = load_folder(write(tmp_path / str(number) / "t", MINIMAL, files, *parts), settings)
        return (
            task.input_digest != base.input_digest,
            task.grading_digest != base.grading_digest,
        )

    assert changed(1) == (False, False)
    assert changed(2, {"instruction.md": "Do that."}) == (True, False)
    assert changed(3, {"environment/a": "b"}) == (True, False)
    assert changed(4, {"environment/b": "a"}) == (True, False)
    assert changed(5, {"tests/test.sh": "exit"}) == (False, True)
    assert changed(6, {"tests/more": ""}) == (False, True)
    assert changed(7, {"solution/solve.sh": "other", "README.md": "x"}) == (False, False)
    assert changed(8, toml("[agent]\ntimeout_sec = 3")) == (True, False)
    assert changed(9, toml("[verifier]\ntimeout_sec = 3")) == (False, True)
    assert changed(10, toml('[verifier.env]\nA = "1"')) == (False, True)
    assert changed(11, toml('[environment.env]\nA = "1"')) == (True, False)
    assert changed(12, toml("[environment]\ncpus = 3")) == (True, False)
    assert changed(13, toml('[metadata]\nauthor = "x"')) == (False, False)
    cache = {"environment/a.py": "", "environment/__pycache__/a.cpython-311.pyc": "1"}
    other = {**cache, "environment/__pycache__/a.cpython-311.pyc": "2"}
    first = load_folder(write(tmp_path / "14" / "t", MINIMAL, cache))
    assert (
        first.input_digest == load_folder(write(tmp_path / "15" / "t", MINIMAL, other)).input_digest
    )


def test_digests_change_with_a_host_value_but_not_with_a_secret(tmp_path):
    text = '[environment.env]\nA = "${PLAIN}"\nB = "${MY_TOKEN}"\n'
    folder = write(tmp_path / "t", MINIMAL, toml(text))

    def digest(plain, token):
        host = HostVariables({"PLAIN": plain, "MY_TOKEN": token}, ["MY_TOKEN"])
        return load_folder(folder, LoadSettings(host=host)).input_digest

    assert digest("a", "1") == digest("a", "2")
    assert digest("a", "1") != digest("b", "1")
