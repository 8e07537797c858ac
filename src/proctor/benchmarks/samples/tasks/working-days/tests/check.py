import os
import sys
import tempfile

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import expect, main, read, run

GIVEN = [
    ("count 2024-03-25 2024-04-05", "8"),
    ("count 2024-04-05 2024-03-25", "-8"),
    ("count 2024-06-08 2024-06-09", "0"),
    ("count 2024-06-09 2024-06-08", "0"),
    ("count 2023-01-01 2023-12-31", "257"),
    ("add 2024-03-28 1", "2024-04-02"),
    ("add 2024-04-02 -1", "2024-03-28"),
    ("add 2024-12-24 2", "2024-12-30"),
    ("add 2024-12-25 0", "2024-12-27"),
    ("add 2024-12-27 0", "2024-12-27"),
    ("add 2024-06-08 1", "2024-06-10"),
    ("add 2023-12-29 250", "2024-12-19"),
    ("count 2023-02-29 2023-03-01", "error"),
    ("count 2024-01-02", "error"),
    ("add 2024-01-02 x", "error"),
    ("add 2024-1-2 3", "error"),
    ("", "error"),
    ("count 2024-02-28 2024-02-29", "2"),
]
OTHER_HOLIDAYS = "# none in April\n2024-06-10 # a Monday\n06-11\n"
OTHER = [("add 2024-06-07 1", "2024-06-12"), ("count 2025-06-09 2025-06-13", "4")]


def check(workspace):
    ask(f"{workspace}/workdays.py", GIVEN)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "workdays.py"), "w", encoding="utf-8") as file:
            file.write(read(f"{workspace}/workdays.py"))
        with open(os.path.join(folder, "holidays.txt"), "w", encoding="utf-8") as file:
            file.write(OTHER_HOLIDAYS)
        ask(os.path.join(folder, "workdays.py"), OTHER)


def ask(program, cases):
    answers = run([sys.executable, program], "".join(f"{line}\n" for line, _ in cases)).splitlines()
    expect("number of answers", len(answers), len(cases))
    for (line, wanted), found in zip(cases, answers):
        expect(f"answer to {line!r}", found.strip(), wanted)


main(check)
