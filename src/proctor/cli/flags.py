"""The flags of the commands, each declared once."""

from typing import Annotated

import typer

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout; text goes to stderr.")
]
Progress = Annotated[
    str | None,
    typer.Option("--progress", metavar="MODE", help="auto, plain or none (default auto)."),
]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", metavar="N", help="Active tasks at a time (default 8)."),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="S", help="Seconds for the whole run (default 0: off)."),
]
Results = Annotated[
    str | None,
    typer.Option("--results", metavar="DIR", help="Where runs are kept (default results)."),
]
RunDir = Annotated[str, typer.Argument(metavar="RUN_DIR", help="A run directory.")]

RequestFile = Annotated[str | None, typer.Argument(metavar="REQUEST.yaml", help="A request file.")]
Benchmark = Annotated[
    str | None,
    typer.Option("--benchmark", metavar="ID", help="ID, module:Class or file.py:Class."),
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="PATH", help="The benchmark's file or folder.")
]
Harness = Annotated[
    str | None,
    typer.Option("--harness", metavar="ID", help="The agent under test, named likewise."),
]
Environment = Annotated[
    str | None,
    typer.Option("--environment", metavar="ID", help="Where agents run (default local)."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="[ADAPTER:]NAME", help="Default adapter: openai."),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="The model's endpoint.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        metavar="KEY=VALUE",
        help="An option of benchmark., harness., environment., model., execution., selection. "
        "or runtime.; may be repeated.",
    ),
]
K = Annotated[int | None, typer.Option("-k", metavar="N", help="Attempts a task (default 1).")]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="NAME", help="avg: all k attempts; pass: until the first success."
    ),
]
Tasks = Annotated[
    list[str] | None,
    typer.Option("--tasks", metavar="GLOB", help="Over task ids; may be repeated."),
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="At most this many tasks.")]
ShuffleSeed = Annotated[
    int | None,
    typer.Option("--shuffle-seed", metavar="N", help="Shuffle the tasks before limiting."),
]
MaxRetries = Annotated[
    int | None,
    typer.Option("--max-retries", metavar="N", help="Retries an attempt (default 0)."),
]
RetryPatterns = Annotated[
    list[str] | None,
    typer.Option(
        "--retry-pattern", metavar="RE", help="Retry only errors that match; may be repeated."
    ),
]
EvaluationMode = Annotated[
    str | None,
    typer.Option("--evaluation-mode", metavar="MODE", help="reuse, none or fresh."),
]
KeepEnvironment = Annotated[
    bool, typer.Option("--keep-environment", help="Leave environments open for looking.")
]
RunId = Annotated[
    str | None,
    typer.Option("--run-id", metavar="ID", help="Must not exist yet (default: the time)."),
]

Task = Annotated[
    str | None, typer.Option("--task", metavar="ID", help="One task, by its exact id.")
]
Attempt = Annotated[
    int | None, typer.Option("--attempt", metavar="N", help="One attempt of the task.")
]
States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        help="Only tasks that are fatal, error, running or normal; may be repeated.",
    ),
]
Shown = Annotated[
    int,
    typer.Option("--limit", metavar="N", min=0, help="At most this many tasks in the list."),
]
Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="benchmarks, harnesses, environments, models, strategies, reducers, analyzers "
        "or judges.",
    ),
]
Checked = Annotated[
    str, typer.Argument(metavar="PATH", help="A request or launch file, or a folder of tasks.")
]

LaunchFile = Annotated[str, typer.Argument(metavar="LAUNCH.yaml", help="A launch file.")]
Resumed = Annotated[
    str, typer.Argument(metavar="RUN_DIR|LAUNCH.json", help="A run directory, or a launch.")
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Only this request; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved plan and run nothing.")]
ReapDryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be removed and remove nothing.")
]
Kept = Annotated[
    bool, typer.Option("--kept", help="Also what a dead run was asked to keep, or may resume.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Allow more than 1,000 requests.")]
Reuse = Annotated[
    bool, typer.Option("--reuse", help="Take over usable records of the newest such run.")
]
ReuseFrom = Annotated[
    str | None,
    typer.Option("--reuse-from", metavar="RUN", help="Take over usable records of that run."),
]
ReuseAnyway = Annotated[
    bool, typer.Option("--reuse-anyway", help="… also where the inputs changed; recorded.")
]
