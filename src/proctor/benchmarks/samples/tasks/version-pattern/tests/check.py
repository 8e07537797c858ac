import json
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import Wrong, expect, main, read, run

VALID = [
    "0.0.0", "1.2.3", "10.20.30", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-0.3.7", "1.0.0--", "1.0.0-0a",
    "1.0.0-x-y-z.-", "1.0.0+001", "1.0.0-rc.1+build.05", "2.0.0+-.0", "99999999999999999999.0.1",
    "1.0.0-00a.0", "1.2.3-9-09",
]  # fmt: skip
INVALID = [
    "", "1", "1.2", "1.2.3.4", "01.2.3", "1.02.3", "1.2.03", "1.2.3-", "1.2.3-01", "1.2.3-a..b",
    "1.2.3-a.", "1.2.3+", "1.2.3+a+b", "1.2.3+a..b", "1.2.3 ", " 1.2.3", "1.2.3\n", "v1.2.3",
    "1.2.3-ä", "١.2.3", "1.2.3-a_b", "1,2,3", "-1.2.3", "1.2.3-00", "1.2.3-a.00", "1..3",
]  # fmt: skip
LONG = ["1.2.3-" + "a" * 30_000 + "!", "1.2.3-" + "a-" * 15_000 + "_", "1.2.3-" + "0" * 30_000 + "."]

# The pattern may be slow for ever: it is tried in a process that can be ended.
MATCH = """
import json, re, sys
pattern, texts = json.load(sys.stdin)
try:
    compiled = re.compile(pattern)
except (re.error, RecursionError, OverflowError):
    print("null")
else:
    print(json.dumps([compiled.fullmatch(text) is not None for text in texts]))
"""


def check(workspace):
    pattern = read(f"{workspace}/pattern.txt").removesuffix("\n").removesuffix("\r")
    if "\n" in pattern:
        raise Wrong("pattern.txt has more than one line")
    texts = VALID + INVALID + LONG
    output = run([sys.executable, "-I", "-c", MATCH], json.dumps([pattern, texts]), seconds=3)
    matches = json.loads(output)
    if matches is None:
        raise Wrong("the pattern is not a regular expression")
    for text, found in zip(texts, matches):
        expect(f"match of {text[:40]!r}", found, text in VALID)


main(check)
