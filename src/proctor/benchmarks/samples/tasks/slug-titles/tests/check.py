import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import expect, main, run

TITLES = {
    "Ünïcode & Friends": "unicode-friends",
    "  --  ": "untitled",
    "Hello,   World!": "hello-world",
    "hello world": "hello-world-2",
    "HELLO/WORLD": "hello-world-3",
    "A title that is really very much too long to be kept": (
        "a-title-that-is-really-very-much-too-lon"
    ),
    "abcdefghij abcdefghij abcdefghij abcdef - x": "abcdefghij-abcdefghij-abcdefghij-abcdef",
    "???": "untitled-2",
    "Hello World 2": "hello-world-2-2",
    "2001: a space odyssey": "2001-a-space-odyssey",
    "Łódź": "odz",
    "déjà vu": "deja-vu",
}


def check(workspace):
    program = f"{workspace}/slugify.py"
    found = run([sys.executable, program], "".join(f"{t}\n" for t in TITLES)).splitlines()
    expect("number of slugs", len(found), len(TITLES))
    for (title, wanted), slug in zip(TITLES.items(), found):
        expect(f"slug of {title!r}", slug, wanted)


main(check)
