"""Artifacts in a verifier's own environment: where the tests expect them.

The runtime hands over what was collected, with checked digests, below LOGS_DIR/artifacts. Each
artifact is then at LOGS_DIR/artifacts/NAME, and at the place that it was taken from too, so that
the same tests work in the agent's environment and in one of their own.
"""

import posixpath

from proctor.benchmarks.harbor.evidence import COLLECTED, artifact_name, inside
from proctor.benchmarks.harbor.jobs import VerifierJob
from proctor.environments.contract import EnvironmentSession
from proctor.kernel.errors import EvaluatorFault

_PLACE_S = 300.0
# Where the verifier has a file and the agent made a folder of its name, or the other way round, the
# agent's is what is graded. Nothing that was handed over is a link.
_PLACE = """\
cd -- "$1" || exit 0
shift
while [ $# -gt 0 ]; do
  if [ -d "$1" ]; then
    [ -d "$2" ] || rm -f -- "$2" || exit 1
    mkdir -p -- "$2" || exit 1
    (cd -- "$1" && find . -exec sh -c '
      for name; do
        if [ -d "$name" ]; then
          [ -d "$0/$name" ] || [ ! -e "$0/$name" ] || rm -f -- "$0/$name"
        elif [ -d "$0/$name" ]; then
          rm -rf -- "$0/$name"
        fi
      done' "$2" {} +)
    cp -R -- "$1/." "$2/" || exit 1
  elif [ -e "$1" ]; then
    if [ -d "$2" ]; then rm -rf -- "$2" || exit 1; fi
    mkdir -p -- "$(dirname -- "$2")" && cp -- "$1" "$2" || exit 1
  fi
  shift 2
done
"""


async def place_artifacts(job: VerifierJob, session: EnvironmentSession) -> None:
    """Put what was handed over into place. Raises EvaluatorFault when there is no room for it."""
    logs = session.paths.logs
    pairs: list[str] = []
    for entry in job.artifacts:
        name = artifact_name(entry)
        pairs += [name, posixpath.join(logs, "artifacts", name)]
        source = inside(entry.source, session)
        if not _grading(source, session):
            pairs += [name, source]
    if not pairs:
        return
    where = posixpath.join(logs, "artifacts", COLLECTED)
    done = await session.exec(
        ["/bin/sh", "-c", _PLACE, "sh", where, *pairs], cwd="/", timeout_s=_PLACE_S
    )
    if not done.ok:
        raise EvaluatorFault(
            f"the artifacts could not be put into place: {done.stderr.strip()[-300:]}",
            code="artifacts_not_placed",
        )
    await session.remove(where)


def _grading(path: str, session: EnvironmentSession) -> bool:
    """Whether a path belongs to the grading itself, where nothing of the agent's may lie."""
    path = "/" + path.lstrip("/")
    places = (session.paths.tests, session.paths.solution, session.paths.logs)
    return path == "/" or any(
        path == p or path.startswith(p + "/") or p.startswith(path + "/") for p in places
    )
