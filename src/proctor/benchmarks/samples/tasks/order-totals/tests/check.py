import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import Wrong, expect, main, read_json

WANTED = {
    "customers": {
        "Nordwind": {"orders": 2, "total": "151.55"},
        "Südkreuz": {"orders": 1, "total": "1.33"},
        "Ça va": {"orders": 1, "total": "1000000.07"},
    },
    "best_sku": "BOLT-6",
    "cancelled": [99, 103],
}


def check(workspace):
    found = read_json(f"{workspace}/totals.json")
    if not isinstance(found, dict):
        raise Wrong("totals.json does not hold an object")
    for key, wanted in WANTED.items():
        expect(key, found.get(key), wanted)
    expect("keys", sorted(found), sorted(WANTED))


main(check)
