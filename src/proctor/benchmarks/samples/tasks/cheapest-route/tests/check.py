import random
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import expect, main, run

SMALL = [
    ("A D\nA B 1\nB C 1\nC D 1\n\nA D 3\n", "3 A D"),
    ("A B\nB A 1\n", "none"),
    ("X X\nX Y 1\nY X 0\n", "0 X"),
    ("S G\nS A 0\nA B 0\nB A 0\nB G 9\nB G 0\nS B 0\n", "0 S B G"),
    ("S G\nS a 1\nS B 1\na G 1\nB G 1\n", "2 S B G"),
]


def large():
    """A network whose cheapest route is known by construction, between many dearer roads."""
    source = random.Random(11)
    route = [f"p{n:04d}" for n in range(400)]
    source.shuffle(route)
    roads = [(a, b, 3) for a, b in zip(route, route[1:])]
    for _ in range(2_000):
        a, b = sorted(source.sample(range(len(route)), 2))
        roads.append((route[a], route[b], 3 * (b - a) + source.randrange(1, 50)))
        roads.append((route[b], route[a], source.randrange(50)))
    source.shuffle(roads)
    text = f"{route[0]} {route[-1]}\n" + "".join(f"{a} {b} {c}\n" for a, b, c in roads)
    return text, " ".join([str(3 * (len(route) - 1)), *route])


def check(workspace):
    program = [sys.executable, f"{workspace}/route.py"]
    for text, wanted in [*SMALL, large()]:
        expect(f"route in {text[:60]!r}", run(program, text, seconds=5).strip(), wanted)


main(check)
