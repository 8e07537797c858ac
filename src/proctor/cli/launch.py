"""`proctor launch`."""

from collections.abc import Iterator, Mapping, Sequence

from proctor.cli.dotenv import load_dotenv
from proctor.cli.output import REFUSED, emit, keep_secrets, one_line, say
from proctor.cli.run import conclude, with_progress
from proctor.cli.text import counted
from proctor.evals import api
from proctor.evals.launches.spec import Launch, LaunchSpec, resolve
from proctor.evals.options import validate
from proctor.evals.preflight import preflight
from proctor.evals.request import RunRequest
from proctor.evals.request_file import read_yaml
from proctor.kernel.errors import OptionError, ProctorError


def launch(
    file: str, only: Sequence[str], dry_run: bool, yes: bool, progress: str | None, as_json: bool
) -> int:
    """Run a launch file; the exit code says how it ended."""
    load_dotenv()
    keep_secrets()
    data = read_yaml(file)
    if "requests" not in data and "benchmark" in data:
        raise OptionError(f"{file} is a request, not a launch file", hint=f"proctor run {file}")
    keep_secrets(data)
    resolved = resolve(validate(LaunchSpec, data, ""), only, any_size=yes)
    if dry_run:
        return _print_plan(resolved, as_json)
    outcome = with_progress(progress, lambda **kw: api.launch(resolved, **kw))
    return conclude(outcome, as_json, launch=True)


def _print_plan(launch: Launch, as_json: bool) -> int:
    """What would run, and what could not; the exit code that a launch would begin with."""
    problems = {str(request.name): found for request in launch.requests
                if (found := _problems(request))}  # fmt: skip
    if as_json:
        plan = launch.model_dump(mode="json", exclude_none=True)
        emit({**plan, "problems": problems} if problems else plan)
    else:
        for line in _plan_lines(launch, problems):
            say(line)
    if len(problems) == len(launch.requests):
        return REFUSED
    return 1 if problems else 0


def _problems(request: RunRequest) -> list[str]:
    """Why a request cannot run, as far as it shows without loading its tasks."""
    try:
        preflight(request)
    except ProctorError as error:
        return [*error.message.splitlines(), *([f"hint: {error.hint}"] if error.hint else [])]
    return []


def _plan_lines(launch: Launch, problems: Mapping[str, Sequence[str]]) -> Iterator[str]:
    requests = counted(len(launch.requests), "request")
    at_once = counted(launch.task_concurrency, "task")
    yield f"{one_line(launch.name)}: {requests}, {at_once} at once"
    width = max(len(str(r.name)) for r in launch.requests)
    for request in launch.requests:
        model = request.model.id if request.model is not None else "none"
        attempts = request.execution.attempts
        line = (
            f"{request.name:{width}}  {request.benchmark.id} · {request.harness.id} · {model} in "
            f"{request.environment.id}, k={attempts.k} {attempts.strategy}"
        )
        yield f"  {one_line(line)}"
        for problem in problems.get(str(request.name), ()):
            yield f"    ! {one_line(problem)}"
    if problems:
        yield f"{len(problems)} of {requests} cannot run"
