#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
python3 - <<'PROGRAM'
import json
from itertools import combinations
from pathlib import Path

modules = json.loads(Path("modules.json").read_text(encoding="utf-8"))
wishes = [(name, other) for name, m in modules.items() for other in m.get("after", [])]


def order(dropped):
    """An order that fulfils everything but the dropped wishes, or None."""
    done, names = [], sorted(modules)
    while names:
        ready = [name for name in names if free(name, done, dropped)]
        if not ready:
            return None
        done.append(ready[0])
        names.remove(ready[0])
    return done


def free(name, done, dropped):
    have = set(done).union(*(modules[other].get("provides", []) for other in done))
    wanted = {other for who, other in wishes if who == name and (who, other) not in dropped}
    return have.issuperset(modules[name].get("needs", [])) and wanted <= set(done)


for number in range(len(wishes) + 1):
    found = next((o for d in combinations(wishes, number) if (o := order(d))), None)
    if found:
        break
Path("order.txt").write_text("".join(f"{name}\n" for name in found), encoding="utf-8")
PROGRAM
