"""`proctor launch`."""

from collections.abc import Sequence

from proctor.cli.output import emit, say
from proctor.cli.run import conclude, with_progress
from proctor.cli.settings import load_dotenv
from proctor.evals import api
from proctor.evals.launches.spec import Launch, LaunchSpec, resolve
from proctor.evals.options import validate
from proctor.evals.request_file import read_yaml


def launch(
    file: str, only: Sequence[str], dry_run: bool, yes: bool, progress: str | None, as_json: bool
) -> int:
    """Run a launch file; the exit code says how it ended."""
    load_dotenv()
    spec = validate(LaunchSpec, read_yaml(file), "")
    resolved = resolve(spec, only, any_size=yes)
    if dry_run:
        _print_plan(resolved, as_json)
        return 0
    reports = with_progress(progress, as_json, lambda **kw: api.launch(resolved, **kw))
    return conclude(reports, as_json)


def _print_plan(launch: Launch, as_json: bool) -> None:
    if as_json:
        emit(launch.model_dump(mode="json", exclude_none=True))
        return
    say(f"{launch.name}: {len(launch.requests)} requests, {launch.task_concurrency} tasks at once")
    width = max(len(str(r.name)) for r in launch.requests)
    for request in launch.requests:
        model = request.model.id if request.model is not None else "none"
        attempts = request.execution.attempts
        say(
            f"  {request.name:{width}}  {request.benchmark.id} · {request.harness.id} · {model} in "
            f"{request.environment.id}, k={attempts.k} {attempts.strategy}"
        )
