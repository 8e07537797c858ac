"""The command line. Commands are declared here and imported on use."""

import signal
import sys
from typing import Annotated, Any

import typer

from proctor.cli.output import emit, prepare_streams, refusal, refuse, say
from proctor.kernel.errors import ProctorError, Stopped

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Evaluate AI agents with results that can be trusted.\n\nStart with: proctor demo",
)

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout; text goes to stderr.")
]
ProgressFlag = Annotated[
    str | None,
    typer.Option("--progress", help="auto, plain or none.", show_default="auto"),
]
Files = list[str] | None


@app.command()
def demo(
    results: Annotated[str, typer.Option("--results", help="Where runs are kept.")] = "results",
    progress: ProgressFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Run the built-in sample evaluation, offline.

    Example: proctor demo
    """
    from proctor.cli import demo as command

    _exit(command.demo(results, progress, as_json))


@app.command()
def run(
    request: Annotated[str | None, typer.Argument(help="A request file (YAML).")] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="ID, module:Class or file.py:Class.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="The benchmark's file or folder.")] = None,
    harness: Annotated[str | None, typer.Option(help="The agent under test.")] = None,
    environment: Annotated[str | None, typer.Option(help="Where agents run.")] = None,
    model: Annotated[str | None, typer.Option(help="[ADAPTER:]NAME.")] = None,
    base_url: Annotated[str | None, typer.Option(help="The model's endpoint.")] = None,
    parameter: Annotated[
        Files, typer.Option("-p", metavar="KEY=VALUE", help="An option; may be repeated.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Attempts a task (default 1).")] = None,
    strategy: Annotated[str | None, typer.Option(help="avg or pass.")] = None,
    tasks: Annotated[Files, typer.Option(help="Glob over task ids; may be repeated.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most this many tasks.")] = None,
    shuffle_seed: Annotated[int | None, typer.Option(help="Shuffle before limiting.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Active tasks (default 8).")] = None,
    max_retries: Annotated[int | None, typer.Option(help="Retries an attempt.")] = None,
    retry_pattern: Annotated[
        Files, typer.Option(help="Retry only errors that match; may be repeated.")
    ] = None,
    evaluation_mode: Annotated[str | None, typer.Option(help="reuse, none or fresh.")] = None,
    keep_environment: Annotated[
        bool, typer.Option("--keep-environment", help="Leave environments open for looking.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(help="Seconds for the whole run.")] = None,
    results: Annotated[str | None, typer.Option(help="Where runs are kept.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Must not exist yet.")] = None,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Take over usable records of the newest such run.")
    ] = False,
    reuse_from: Annotated[
        str | None, typer.Option(metavar="RUN", help="Take over usable records of that run.")
    ] = None,
    reuse_anyway: Annotated[
        bool, typer.Option("--reuse-anyway", help="… also where the inputs changed; recorded.")
    ] = False,
    progress: ProgressFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a benchmark: every selected task, k attempts each.

    Example: proctor run --benchmark table --data rows.jsonl --harness command
    -p harness.command='python3 agent.py' -p benchmark.scorer=numeric -k 3
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
    file: Annotated[str, typer.Argument(metavar="LAUNCH.yaml", help="A launch file.")],
    only: Annotated[
        Files, typer.Option(metavar="NAME", help="Only this request; may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved plan and run nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Allow more than 1,000 requests.")] = False,
    progress: ProgressFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Run several named requests through one pool.

    Example: proctor launch nightly.yaml --only fix-codex
    """
    from proctor.cli import launch as command

    _exit(command.launch(file, only or [], dry_run, yes, progress, as_json))


@app.command()
def rescore(
    run_dir: Annotated[str, typer.Argument(help="A run directory.")],
    parameter: Annotated[
        Files, typer.Option("-p", metavar="KEY=VALUE", help="An option; may be repeated.")
    ] = None,
    progress: ProgressFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Grade a run's stored answers and artifacts again, into a new run beside it.

    Example: proctor rescore results/table/command/none/20260131-181114
    -p benchmark.scorer=includes
    """
    from proctor.cli import run as command

    _exit(command.rescore(run_dir, parameter or [], progress, as_json))


@app.command()
def resume(
    run_dir: Annotated[
        str, typer.Argument(metavar="RUN_DIR|LAUNCH.json", help="A run directory or a launch.")
    ],
    concurrency: Annotated[int | None, typer.Option(help="Active tasks.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for this execution.")] = None,
    progress: ProgressFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Continue a run or a launch in place: only what has no valid record runs.

    Example: proctor resume results/table/command/none/20260131-181114
    """
    from proctor.cli import run as command

    _exit(command.resume(run_dir, concurrency, timeout, progress, as_json))


@app.command()
def show(
    run_dir: Annotated[str, typer.Argument(help="A run directory.")],
    task: Annotated[str | None, typer.Option(help="One task, by its exact id.")] = None,
    attempt: Annotated[int | None, typer.Option(help="One attempt of the task.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many tasks in the list.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """Show a run, a task or an attempt.

    Example: proctor show results/table/nop/none/20260131-181114 --task 17
    """
    from proctor.cli import show as command

    _exit(command.show(run_dir, task, attempt, limit, as_json))


@app.command("list")
def list_components(
    kind: Annotated[str, typer.Argument(help="benchmarks, harnesses, environments, models, …")],
    as_json: JsonFlag = False,
) -> None:
    """List what is registered, and what is missing or broken.

    Example: proctor list benchmarks
    """
    from proctor.cli import listing as command

    _exit(command.list_components(kind, as_json))


@app.command()
def validate(
    path: Annotated[str, typer.Argument(help="A request file, a task folder or a data set.")],
    as_json: JsonFlag = False,
) -> None:
    """Check a file or folder without running anything.

    Example: proctor validate request.yaml
    """
    from proctor.cli import validate as command

    _exit(command.validate(path, as_json))


@app.command()
def version(as_json: JsonFlag = False) -> None:
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
    as_json = "--json" in given
    try:
        outcome = app(args=given, standalone_mode=False)
    except Stopped as error:  # nothing has run yet
        if as_json:
            emit({"status": "interrupted", "runs": []})
        say("proctor: stopped before anything ran", error=True)
        return 128 + (error.signal or signal.SIGINT)
    except ProctorError as error:
        return refuse(error, as_json)
    except SystemExit as error:  # of a plug-in: the run is not what its exit code says
        return error.code if isinstance(error.code, int) and error.code else 3
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - defects are raised again
        return _usage(error, as_json)
    return outcome if isinstance(outcome, int) else 0


def _usage(error: Any, as_json: bool) -> int:
    """A complaint of the option parser; anything else is a defect and propagates."""
    show_message = getattr(error, "format_message", None)
    if show_message is None:
        raise error
    if as_json:
        emit(refusal("usage", show_message(), "see --help"))
    error.show(file=sys.stderr)
    return 2
