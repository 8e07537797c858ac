"""A data set folder: which sub-folders are tasks, duplicates, collisions, and real data sets."""

import os
from pathlib import Path

import pytest
from tests.unit.benchmarks.harbor.folders import MINIMAL, write

from proctor.benchmarks import samples
from proctor.benchmarks.harbor import Harbor, load_dataset
from proctor.benchmarks.harbor.benchmark import HarborOptions
from proctor.kernel.errors import DataError
from proctor.kernel.ids import id_problem


def test_sub_folders_with_a_task_toml_sorted_by_name(tmp_path):
    for name in ("b", "a", "Z"):
        write(tmp_path / name, MINIMAL)
    write(tmp_path / "notes", {"README.md": "no task"})
    write(tmp_path / ".git", {"config": ""})
    write(tmp_path / "deep" / "inner", MINIMAL)
    (tmp_path / "file").write_text("")
    assert [task.id for task in load_dataset(tmp_path)] == ["Z", "a", "b"]


def test_one_task_folder_is_a_data_set(tmp_path):
    assert [task.id for task in load_dataset(write(tmp_path / "only", MINIMAL))] == ["only"]


def test_an_invalid_task_is_listed_and_the_others_stay(tmp_path):
    write(tmp_path / "bad", MINIMAL, {"task.toml": "a ="})
    write(tmp_path / "good", MINIMAL)
    bad, good = load_dataset(tmp_path)
    assert (bad.id, good.id) == ("bad", "good")
    assert bad.invalid is not None
    assert good.invalid is None


def test_what_is_no_data_set(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        load_dataset(tmp_path / "missing")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file, not a folder"):
        load_dataset(tmp_path / "file")
    with pytest.raises(DataError, match="holds no task folder") as caught:
        load_dataset(tmp_path)
    assert "task.toml" in (caught.value.hint or "")
    with pytest.raises(DataError, match="harbor needs task folders"):
        Harbor().load_tasks()


def test_duplicate_names_refuse_the_load_and_are_all_listed(tmp_path):
    for folder, name in (("a", "o/x"), ("b", "o/x"), ("c", "o/y"), ("d", "o/y"), ("e", "o/z")):
        write(tmp_path / folder, MINIMAL, {"task.toml": f'[task]\nname = "{name}"\n'})
    with pytest.raises(DataError) as caught:
        load_dataset(tmp_path)
    assert caught.value.problems == (
        "'o/x' is the name of 2 tasks: a, b",
        "'o/y' is the name of 2 tasks: c, d",
    )


def test_folder_names_that_collide_after_normalising(tmp_path):
    for name in ("Task", "task", "caf\u00e9", "cafe\u0301", "fine"):
        write(tmp_path / name, MINIMAL)
    found = {task.id: task.invalid for task in load_dataset(tmp_path)}
    assert found.pop("fine") is None
    assert found["task"] == (
        "the folder names 'task' and 'Task' differ only in case or Unicode form: rename one"
    )
    assert len(found) == 4
    assert all(found.values())


def test_a_folder_that_is_a_link_out_of_the_data_set(tmp_path):
    write(tmp_path / "elsewhere", MINIMAL)
    write(tmp_path / "set" / "a", MINIMAL)
    (tmp_path / "set" / "b").symlink_to(tmp_path / "elsewhere")
    a, b = load_dataset(tmp_path / "set")
    assert a.invalid is None
    assert b.invalid == "the folder is a link that leaves the data set"


def test_paths_do_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    write(tmp_path / "set" / "a", MINIMAL, {"environment/Dockerfile": "FROM a\nCOPY . /x\n"})
    monkeypatch.chdir(tmp_path)
    (task,) = Harbor(data=Path("set")).load_tasks()
    assert task.environment.copies == ((str(tmp_path / "set/a/environment"), "/x"),)


def test_options_reach_the_loader(tmp_path, monkeypatch):
    monkeypatch.setenv("A_SECRET_TOKEN", "tok-123456")
    text = '[verifier.env]\nT = "${A_SECRET_TOKEN}"\n'
    folder = write(tmp_path / "t", MINIMAL, {"task.toml": text})
    (task,) = Harbor(data=folder).load_tasks()
    assert "looks secret" in (task.invalid or "")
    (task,) = Harbor(HarborOptions(host_env=["A_SECRET_TOKEN"]), folder).load_tasks()
    assert task.data.env == {"T": "tok-123456"}
    (task,) = Harbor(HarborOptions(max_files=2), folder).load_tasks()
    assert "more than 2 files" in (task.invalid or "")


def test_the_metric_contract_is_one():
    contract = Harbor().metrics()
    assert contract.problems() == []
    assert contract.primary == "passed"


def test_the_samples_are_valid_portable_tasks():
    tasks = load_dataset(samples.path())
    assert len(tasks) == 12
    assert [task.invalid for task in tasks] == [None] * 12
    assert all(task.reference is not None for task in tasks)
    assert not any(task.environment.absolute_paths for task in tasks)
    assert len({task.category for task in tasks}) >= 10
    # Nothing that installing would leave out or change.
    names = {p.name for p in samples.path().rglob("*")}
    assert names.isdisjoint({"build", "dist", ".env"})


def test_every_sample_has_the_same_grader_and_test_script():
    for name in ("grader.py", "test.sh"):
        contents = {p.read_text() for p in samples.path().glob(f"*/tests/{name}")}
        assert len(contents) == 1


@pytest.mark.parametrize(
    ("name", "references", "limit_s"),
    [("harbor_humanevalpack", 20, 300.0), ("harbor_termigen", 0, 900.0)],
)
def test_real_data_sets_load(shared_data, name, references, limit_s):
    tasks = load_dataset(shared_data / name)
    assert len(tasks) == 20
    assert [task.invalid for task in tasks] == [None] * 20
    assert sum(task.reference is not None for task in tasks) == references
    assert {task.agent_timeout_s for task in tasks} == {limit_s}
    assert all(id_problem(task.id) is None for task in tasks)
    assert all(task.environment.absolute_paths and task.environment.build for task in tasks)
    for task in tasks:
        for source, inside in task.environment.copies:
            assert os.path.exists(source)
            assert inside.startswith("/")


def test_the_pack_copies_its_context_to_task(shared_data):
    task = load_dataset(shared_data / "harbor_humanevalpack" / "python_0")[0]
    assert task.environment.workdir == "/task"
    assert [inside for _, inside in task.environment.copies] == ["/task"]
    assert task.environment.env["PATH"].startswith("/root/.local/bin:")
