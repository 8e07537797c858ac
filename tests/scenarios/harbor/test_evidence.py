"""Collect commands and artifacts of a task, kept while its environment is alive."""

import asyncio
from pathlib import Path

import pytest
from tests.scenarios.harbor.driving import make_task, opened

from proctor.benchmarks.harbor import Harbor
from proctor.evals.contracts import AttemptContext, PreparedTask, RunResult
from proctor.kernel.issues import Cause, Phase, Severity


def collect(task, agent, artifacts_dir):
    async def scenario():
        async with opened(task) as session:
            await session.exec(agent)
            context = AttemptContext("t", 1, None, None, artifacts_dir)
            return await Harbor().collect_artifacts(
                PreparedTask(task, task.input), RunResult(final_answer="x"), session, context
            )

    return asyncio.run(scenario())


def kept(folder: Path):
    return {
        p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()
    }


def test_nothing_asked_for_leaves_nothing(tmp_path):
    result = collect(make_task(tmp_path / "t", "true\n"), "true", tmp_path / "kept")
    assert result == RunResult(final_answer="x")
    assert not (tmp_path / "kept").exists()


def test_commands_then_artifacts(tmp_path):
    task = make_task(
        tmp_path / "t",
        "true\n",
        '[[verifier.collect]]\ncommand = "echo made > made.txt"\n',
        artifacts='["made.txt", "/logs/artifacts", "/app/given.txt", '
        '{ source = "out", destination = "deep/result", exclude = ["*.tmp", "cache/"] }]',
    )
    agent = (
        "mkdir -p out/cache; echo a > out/a.txt; echo b > out/b.tmp; echo c > out/cache/c;"
        'echo log > "$LOGS_DIR/artifacts/note.txt"'
    )
    result = collect(task, agent, tmp_path / "kept")
    assert result.issues == ()
    assert kept(tmp_path / "kept") == {
        "collected/made.txt": "made\n",
        "collected/deep/result/a.txt": "a\n",
        "collected/logs/artifacts/note.txt": "log\n",
        "collected/app/given.txt": "given\n",
    }
    assert not (tmp_path / "kept/collected/deep/result/cache").exists()


def test_what_cannot_be_kept_is_a_warning(tmp_path):
    task = make_task(
        tmp_path / "t",
        "true\n",
        '[[verifier.collect]]\ncommand = "exit 3"\n',
        artifacts='["missing", "link", "big", "pipe", "tree"]',
    )
    agent = (
        "ln -s /etc/hostname link; truncate -s 200M big; mkfifo pipe; mkdir tree; echo x > tree/x;"
        "ln -s /etc tree/out"
    )
    result = collect(task, agent, tmp_path / "kept")
    assert [issue.code for issue in result.issues] == [
        "collect_failed",
        "artifact_missing",
        "artifact_not_a_file",
        "artifact_too_large",
        "artifact_not_a_file",
        "artifact_refused_path",
    ]
    for issue in result.issues:
        assert (issue.severity, issue.phase) == (Severity.WARNING, Phase.COLLECT)
        assert issue.cause is Cause.BENCHMARK
    assert not (tmp_path / "kept").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "codes"), [(10_000, []), (10_001, ["artifact_too_many_files"])])
def test_an_artifact_holds_only_so_many_files(tmp_path, count, codes):
    task = make_task(tmp_path / "t", "true\n", artifacts='["out", "one"]')
    agent = f"mkdir out; echo 1 > one; cd out; seq {count} | xargs touch"
    result = collect(task, agent, tmp_path / "kept")
    assert [issue.code for issue in result.issues] == codes
    held = sum(1 for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert held == (1 if codes else count + 1)
