import json
import os
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import Wrong, expect, main, read

with open(os.path.join(os.path.dirname(__file__), "modules.json"), encoding="utf-8") as file:
    MODULES = json.load(file)
IMPOSSIBLE = ("core", "app")  # app needs core


def check(workspace):
    order = [line.strip() for line in read(f"{workspace}/order.txt").splitlines() if line.strip()]
    expect("the modules", sorted(order), sorted(MODULES))
    have = set()
    for name in order:
        module = MODULES[name]
        for need in module.get("needs", []):
            if need not in have:
                raise Wrong(f"{name} comes before what it needs: {need}")
        for wish in module.get("after", []):
            if wish not in have and (name, wish) != IMPOSSIBLE:
                raise Wrong(f"{name} should come after {wish}")
        have |= {name, *module.get("provides", [])}


main(check)
