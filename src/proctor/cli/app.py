"""The command line. Commands are declared here and imported on use."""

import sys
from contextlib import nullcontext

import typer

from proctor.cli import flags
from proctor.cli.agent.commands import agents
from proctor.cli.output import (
    REFUSED,
    OutputLost,
    defect,
    emit,
    give_up,
    interrupted,
    lost,
    only_the_document,
    prepare_streams,
    refusal,
    refuse,
    say,
    working_directory,
)
from proctor.kernel.errors import ProctorError, Stopped, UsageError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Evaluate AI agents with results that can be trusted.\n\nStart with: proctor demo",
)


@app.command()
def demo(
    results: flags.Results = None, progress: flags.Progress = None, as_json: flags.Json = False
) -> None:
    """Run the built-in sample evaluation, offline.

    Example: proctor demo
    """
    from proctor.cli import demo as command

    _exit(command.demo(results, progress, as_json))


@app.command()
def run(
    request: flags.RequestFile = None,
    benchmark: flags.Benchmark = None,
    data: flags.Data = None,
    harness: flags.Harness = None,
    environment: flags.Environment = None,
    model: flags.Model = None,
    base_url: flags.BaseUrl = None,
    parameter: flags.Parameters = None,
    k: flags.K = None,
    strategy: flags.Strategy = None,
    tasks: flags.Tasks = None,
    limit: flags.Limit = None,
    shuffle_seed: flags.ShuffleSeed = None,
    concurrency: flags.Concurrency = None,
    max_retries: flags.MaxRetries = None,
    retry_pattern: flags.RetryPatterns = None,
    evaluation_mode: flags.EvaluationMode = None,
    keep_environment: flags.KeepEnvironment = False,
    timeout: flags.Timeout = None,
    results: flags.Results = None,
    run_id: flags.RunId = None,
    reuse: flags.Reuse = False,
    reuse_from: flags.ReuseFrom = None,
    reuse_anyway: flags.ReuseAnyway = False,
    progress: flags.Progress = None,
    as_json: flags.Json = False,
) -> None:
    """Run a benchmark: every selected task, k attempts each.

    \b
    Example:
      proctor run --benchmark table --data rows.jsonl -k 3 \\
        --harness command -p harness.command="python3 '$PWD/agent.py'"

    Settings: flag > request file > PROCTOR_* variable > proctor.toml > default.

    Exit codes: 0 every task has a valid score; 1 some task has none; 2 refused, nothing ran;
    3 out of time or could not go on; 130 and 143 stopped by a signal.
    """
    given = dict(locals())
    from proctor.cli import run as command

    for name in ("request", "parameter", "reuse", "reuse_from", "reuse_anyway", "progress",
                 "as_json"):  # fmt: skip
        given.pop(name)
    earlier = (reuse, reuse_from, reuse_anyway)
    _exit(command.run(request, given, parameter or [], earlier, progress, as_json))


@app.command()
def launch(
    file: flags.LaunchFile,
    only: flags.Only = None,
    dry_run: flags.DryRun = False,
    yes: flags.Yes = False,
    progress: flags.Progress = None,
    as_json: flags.Json = False,
) -> None:
    """Run several named requests through one pool.

    Example: proctor launch nightly.yaml --only fix-codex

    Exit codes are those of `run`; 1 also when a request failed and others did not.
    """
    from proctor.cli import launch as command

    _exit(command.launch(file, only or [], dry_run, yes, progress, as_json))


@app.command()
def rescore(
    run_dir: flags.RunDir,
    parameter: flags.Parameters = None,
    progress: flags.Progress = None,
    as_json: flags.Json = False,
) -> None:
    """Grade a run's stored answers and artifacts again, into a new run beside it.

    \b
    Example:
      proctor rescore results/table/command/none/20260131-181114 \\
        -p benchmark.scorer=includes
    """
    from proctor.cli import run as command

    _exit(command.rescore(run_dir, parameter or [], progress, as_json))


@app.command()
def resume(
    run_dir: flags.Resumed,
    concurrency: flags.Concurrency = None,
    timeout: flags.Timeout = None,
    progress: flags.Progress = None,
    as_json: flags.Json = False,
) -> None:
    """Continue a run or a launch in place: only what has no valid record runs.

    Example: proctor resume results/table/command/none/20260131-181114
    """
    from proctor.cli import run as command

    _exit(command.resume(run_dir, concurrency, timeout, progress, as_json))


@app.command()
def show(
    run_dir: flags.RunDir,
    task: flags.Task = None,
    attempt: flags.Attempt = None,
    state: flags.States = None,
    limit: flags.Shown = 50,
    as_json: flags.Json = False,
) -> None:
    """Show a run, a task or an attempt.

    Example: proctor show results/table/nop/none/20260131-181114 --task 17
    """
    from proctor.cli import show as command

    _exit(command.show(run_dir, command.Wanted(task, attempt, state or (), limit), as_json))


@app.command("list")
def list_components(kind: flags.Kind, as_json: flags.Json = False) -> None:
    """List what is registered, and what is missing or broken.

    Example: proctor list benchmarks
    """
    from proctor.cli import listing as command

    _exit(command.list_components(kind, as_json))


environments = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="See and remove what environments left on this machine.",
)
app.add_typer(environments, name="env")
app.add_typer(agents, name="agent")


@environments.command("list")
def env_list(as_json: flags.Json = False) -> None:
    """List what runs own on this machine, living and dead.

    Example: proctor env list
    """
    from proctor.cli import env as command

    _exit(command.list_owned(as_json))


@environments.command("reap")
def env_reap(
    kept: flags.Kept = False, dry_run: flags.ReapDryRun = False, as_json: flags.Json = False
) -> None:
    """Remove what dead runs left. Nothing of a living run is touched.

    Example: proctor env reap --dry-run

    Exit codes: 0 all of it is gone; 1 something could not be removed.
    """
    from proctor.cli import env as command

    _exit(command.reap(kept, dry_run, as_json))


@app.command()
def validate(path: flags.Checked, as_json: flags.Json = False) -> None:
    """Check a file or folder without running anything.

    Example: proctor validate request.yaml
    """
    from proctor.cli import validate as command

    _exit(command.validate(path, as_json))


@app.command()
def version(as_json: flags.Json = False) -> None:
    """Print the version.

    Example: proctor version
    """
    import platform

    import proctor

    if as_json:
        emit({"proctor": proctor.__version__, "python": platform.python_version()})
    else:
        say(f"proctor {proctor.__version__} (Python {platform.python_version()})")


def _exit(code: int) -> None:
    raise typer.Exit(code)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code. Refusals are exit code 2."""
    prepare_streams()
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        given = ["version"]
    as_json = "--json" in given and not {"-h", "--help"} & set(given)
    with only_the_document() if as_json else nullcontext():
        try:
            return _run(given, as_json)
        except OutputLost as error:
            return lost(error)


def _run(given: list[str], as_json: bool) -> int:
    try:
        working_directory()
        outcome = app(args=given, prog_name="proctor", standalone_mode=False)
    except UsageError as error:
        return refuse(error, as_json)
    except Stopped as error:
        return interrupted(as_json, error.signal)
    except ProctorError as error:
        return give_up(error, as_json)
    except (KeyboardInterrupt, typer.Abort):
        return interrupted(as_json)
    except OutputLost:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a defect is told with its traceback
        show_message = getattr(error, "format_message", None)
        if show_message is None:
            return defect(error, as_json)
        return _usage(error, show_message(), as_json)
    return outcome if isinstance(outcome, int) else 0


def _usage(error: BaseException, message: str, as_json: bool) -> int:
    """A complaint of the option parser."""
    if as_json:
        emit(refusal("usage", message, "see --help"))
    error.show(file=sys.stderr)  # type: ignore[attr-defined]
    return REFUSED


__all__ = ["app", "main"]
