"""Ours: python -m bench.resume.own_case prepare|resume TASKS REPORT

`prepare` runs all tasks and takes the last one's evidence away, as if the driver had been killed
before it; `resume` continues the run and checks that exactly that task ran.
"""

import json
import shutil
import sys
from pathlib import Path

from bench.own import Span, report


def prepare(tasks: int) -> None:
    """A run directory of which one task is left."""
    import proctor
    from bench.noop_work import request

    done = proctor.run(request(tasks, 64, "reuse", "results"))
    root = Path(done.run_dir)
    (last,) = root.glob(f"details/normal/task-{tasks:06d}--*")
    shutil.rmtree(last)
    info = json.loads((root / "run_info.json").read_text("utf-8"))
    info["status"] = "interrupted"
    (root / "run_info.json").write_text(json.dumps(info), "utf-8")
    Path("run_dir").write_text(str(root), "utf-8")


def resume(tasks: int) -> None:
    """Continue it."""
    import proctor

    done = proctor.resume(Path("run_dir").read_text("utf-8"))
    counts = done.counts
    if (done.status, counts.normal, counts.reused_attempts) != ("completed", tasks, tasks - 1):
        raise SystemExit(f"the resume went wrong: {done.status}, {counts}")


def main() -> None:
    step, tasks, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    span = Span()
    (prepare if step == "prepare" else resume)(tasks)
    report(place, span.end())


if __name__ == "__main__":
    main()
