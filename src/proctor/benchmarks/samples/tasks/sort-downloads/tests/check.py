import os
import subprocess
import sys
import tempfile

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import Wrong, expect, main, read, run

BEFORE = {
    "a b.TXT": "1",
    "-rf": "2",
    "-n.log": "3",
    "*.md": "4",
    "it's \"it\".csv": "5",
    "archive.tar.gz": "6",
    "trailing.": "7",
    ".profile.sh": "8",
    "pdf/x.pdf": "old",
    "x.pdf": "new",
    "keep/deep.txt": "9",
    "other/plain": "old",
    "plain": "new",
}
AFTER = {
    "txt/a b.TXT": "1",
    "other/-rf": "2",
    "log/-n.log": "3",
    "md/*.md": "4",
    "csv/it's \"it\".csv": "5",
    "gz/archive.tar.gz": "6",
    "other/trailing.": "7",
    ".profile.sh": "8",
    "pdf/x.pdf": "old",
    "x.pdf": "new",
    "keep/deep.txt": "9",
    "other/plain": "old",
    "plain": "new",
}


def check(workspace):
    script = f"{workspace}/sort-downloads.sh"
    read(script)
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "my downloads")
        for name, content in BEFORE.items():
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w") as file:
                file.write(content)
        os.symlink("plain", os.path.join(folder, "link.txt"))
        expect("the number printed", run(["/bin/sh", script, folder]).strip(), "7")
        expect("the files", tree(folder), dict(sorted(AFTER.items())))
        expect("link.txt", os.path.islink(os.path.join(folder, "link.txt")), True)
        expect("folders", folders(folder), ["csv", "gz", "keep", "log", "md", "other", "pdf", "txt"])
        expect("a second run", run(["/bin/sh", script, folder]).strip(), "0")
    if (code := exit_code(["/bin/sh", script, "/nonexistent/folder"])) != 2:
        raise Wrong(f"exit code {code} for a folder that is not there")


def tree(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                found[os.path.relpath(path, folder)] = read(path)
    return dict(sorted(found.items()))


def folders(folder):
    return sorted(e.name for e in os.scandir(folder) if e.is_dir(follow_symlinks=False))


def exit_code(argv):
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, env={"PATH": os.defpath}
    ).returncode


main(check)
