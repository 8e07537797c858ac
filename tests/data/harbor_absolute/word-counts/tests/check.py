import json
from pathlib import Path


def holds(condition):
    try:
        return 1.0 if condition() else 0.0
    except (OSError, ValueError):
        return 0.0


work = Path("/srv/work")
rewards = {
    "counts": holds(
        lambda: json.loads((work / "counts.json").read_text()) == {"a.txt": 3, "b.txt": 4}
    ),
    "total": holds(lambda: int((work / "total.txt").read_text()) == 7),
    "place": holds(lambda: Path.cwd() == work),
}
Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
Path("/logs/verifier/reward.txt").write_text("0")
