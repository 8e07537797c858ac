"""`proctor launch`."""

from collections.abc import Sequence

from proctor.cli.dotenv import load_dotenv
from proctor.cli.output import emit, keep_secrets, one_line, say
from proctor.cli.run import conclude, with_progress
from proctor.cli.text import counted
from proctor.evals import api
from proctor.evals.launches.spec import Launch, LaunchSpec, resolve
from proctor.evals.options import validate
from proctor.evals.request_file import read_yaml


def launch(
    file: str, only: Sequence[str], dry_run: bool, yes: bool, progress: str | None, as_json: bool
) -> int:
    """Run a launch file; the exit code says how it ended."""
    load_dotenv()
    keep_secrets()
    data = read_yaml(file)
    keep_secrets(data)
    resolved = resolve(validate(LaunchSpec, data, ""), only, any_size=yes)
    if dry_run:
        _print_plan(resolved, as_json)
        return 0
    return conclude(with_progress(progress, lambda **kw: api.launch(resolved, **kw)), as_json)


def _print_plan(launch: Launch, as_json: bool) -> None:
    if as_json:
        emit(launch.model_dump(mode="json", exclude_none=True))
        return
    requests = counted(len(launch.requests), "request")
    at_once = counted(launch.task_concurrency, "task")
    say(f"{one_line(launch.name)}: {requests}, {at_once} at once")
    width = max(len(str(r.name)) for r in launch.requests)
    for request in launch.requests:
        model = request.model.id if request.model is not None else "none"
        attempts = request.execution.attempts
        line = (
            f"{request.name:{width}}  {request.benchmark.id} · {request.harness.id} · {model} in "
            f"{request.environment.id}, k={attempts.k} {attempts.strategy}"
        )
        say(f"  {one_line(line)}")
