import random
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import call, expect, main

FIXED = [
    [],
    [[1, 10], [2, 3]],
    [[5, 7], [1, 5]],
    [[3, 3], [8, 6]],
    [[0, 4], [1, 2], [3, 9], [20, 21]],
]
WINDOW = [2, 18]


def runs(points):
    """Sorted numbers as maximal intervals."""
    found = []
    for point in points:
        if found and found[-1][1] == point:
            found[-1][1] = point + 1
        else:
            found.append([point, point + 1])
    return found


def check(workspace):
    source = random.Random(20)
    cases = FIXED + [
        [[source.randrange(20), source.randrange(25)] for _ in range(source.randrange(1, 7))]
        for _ in range(60)
    ]
    calls, wanted = [], []
    for case in cases:
        covered = sorted({n for start, end in case for n in range(start, end)})
        free = [n for n in range(*WINDOW) if n not in covered]
        calls += [["merge", [case]], ["gaps", [case, WINDOW]], ["total", [case]]]
        wanted += [runs(covered), runs(free), len(covered)]
    answers = call(workspace, "intervals", calls)
    for (name, given), (found, afterwards), value in zip(calls, answers, wanted):
        expect(f"{name}{tuple(given)}", found, value)
        expect(f"the arguments after {name}", afterwards, given)


main(check)
