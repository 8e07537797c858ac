"""Run an evaluation from Python and read what came out.

python examples/run_from_python.py [RESULTS_DIR]
"""

import sys
from pathlib import Path

import proctor

HERE = Path(__file__).parent
REQUEST = {
    "benchmark": {"id": "table", "data": str(HERE / "logs.jsonl"), "scorer": "exact"},
    "harness": {"id": "python", "callable": f"{HERE / 'agent_function.py'}:agent"},
    "execution": {"attempts": {"k": 2}},
}


def main(results_dir: str = "results") -> None:
    report = proctor.run({**REQUEST, "runtime": {"results_dir": results_dir}})
    print(report.status, report.metrics.primary)
    for attempt in proctor.load(report.run_dir).attempts():
        print(attempt.task_id, attempt.index, attempt.metrics, repr(attempt.final_answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
