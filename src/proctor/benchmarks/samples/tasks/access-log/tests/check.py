import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import expect, main, read

WANTED = ["requests 182", "bytes 768935", "errors /api/items/7 17", "slowest 09 344"]


def check(workspace):
    found = read(f"{workspace}/answers.txt").strip().split("\n")
    expect("answers.txt", [line.strip() for line in found], WANTED)


main(check)
