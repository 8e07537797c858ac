"""The commands of `proctor agent`. What they do is imported on use."""

from typing import Annotated

import typer

from proctor.cli import flags

Run = Annotated[str, typer.Argument(metavar="RUN", help="The id of an agent run.")]
Wait = Annotated[str, typer.Argument(metavar="WAIT", help="What is waited for: see agent show.")]
Where = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="WHERE",
        envvar="PROCTOR_JOURNAL",
        help="A journal, a run directory that has one, or a postgresql:// address "
        "(default .proctor/agent/journal.sqlite).",
    ),
]
By = Annotated[str | None, typer.Option("--by", metavar="WHO", help="Who says it (default: you).")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Kept, and told on.")]

agents = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="See durable agent runs, and answer what they wait for.",
)


@agents.command("list")
def list_runs(
    where: Where = None,
    every: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most N.")] = 50,
    as_json: flags.Json = False,
) -> None:
    """List agent runs, the newest last, and who moves next in each.

    Example: proctor agent list
    """
    from proctor.cli.agent import looking

    raise typer.Exit(looking.list_runs(where, every, limit, as_json))


@agents.command("show")
def show(
    run: Run,
    where: Where = None,
    log: Annotated[bool, typer.Option("--log", help="Every event, too.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Events as they come, until the run ends.")
    ] = False,
    as_json: flags.Json = False,
) -> None:
    """Show a run: what is known, what is open, and who moves next.

    Example: proctor agent show run-5f3a
    """
    from proctor.cli.agent import looking

    raise typer.Exit(looking.show(run, where, log, follow, as_json))


@agents.command("answer")
def answer(
    run: Run,
    wait: Wait,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The answer, as text.")
    ] = None,
    json_value: Annotated[
        str | None, typer.Option("--json-value", metavar="JSON", help="The answer, as JSON.")
    ] = None,
    happened: Annotated[
        bool | None,
        typer.Option("--happened/--did-not-happen", help="What became of an unknown outcome."),
    ] = None,
    where: Where = None,
    by: By = None,
    as_json: flags.Json = False,
) -> None:
    """Answer what a run waits for. The first valid answer counts.

    Example: proctor agent answer run-5f3a w2 "the blue one"

    Example: proctor agent answer run-5f3a w3 --did-not-happen "it is not in the ledger"
    """
    from proctor.cli.agent import saying

    said = saying.Said(run, wait, where, by, as_json)
    raise typer.Exit(saying.answer(said, value, json_value, happened))


@agents.command("approve")
def approve(
    run: Run,
    wait: Wait,
    scope: Annotated[
        str, typer.Option("--scope", metavar="SCOPE", help="once, or run: the same call again.")
    ] = "once",
    expires: Annotated[
        float | None,
        typer.Option("--expires", metavar="S", min=0.0, help="Seconds that it counts for."),
    ] = None,
    where: Where = None,
    by: By = None,
    as_json: flags.Json = False,
) -> None:
    """Approve an action, a result, or files that changed while nobody worked.

    Example: proctor agent approve run-5f3a w1 --scope run
    """
    from proctor.cli.agent import saying

    raise typer.Exit(saying.approve(saying.Said(run, wait, where, by, as_json), scope, expires))


@agents.command("deny")
def deny(
    run: Run,
    wait: Wait,
    reason: Reason = "",
    where: Where = None,
    by: By = None,
    as_json: flags.Json = False,
) -> None:
    """Say no to what a run waits for.

    Example: proctor agent deny run-5f3a w1 --reason "not on a Friday"
    """
    from proctor.cli.agent import saying

    raise typer.Exit(saying.deny(saying.Said(run, wait, where, by, as_json), reason))


@agents.command("resume")
def resume(
    run: Run,
    reason: Reason = "",
    where: Where = None,
    by: By = None,
    as_json: flags.Json = False,
) -> None:
    """Let a run that is suspended or stopped go on, and its subtasks.

    Example: proctor agent resume run-5f3a --reason "the worker has more memory now"
    """
    from proctor.cli.agent import saying

    raise typer.Exit(saying.resume(saying.Said(run, "", where, by, as_json), reason))


@agents.command("cancel")
def cancel(
    run: Run,
    reason: Reason = "",
    compensate: Annotated[
        bool, typer.Option("--compensate", help="Undo what was done and can be undone.")
    ] = False,
    where: Where = None,
    by: By = None,
    as_json: flags.Json = False,
) -> None:
    """Cancel a run and its subtasks: nothing new starts, what runs is stopped.

    Example: proctor agent cancel run-5f3a --reason "wrong account"
    """
    from proctor.cli.agent import saying

    raise typer.Exit(saying.cancel(saying.Said(run, "", where, by, as_json), reason, compensate))
