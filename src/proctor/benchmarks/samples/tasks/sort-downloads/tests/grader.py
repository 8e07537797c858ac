"""Reads and runs what an agent left in its workspace, without trusting any of it.

Exit codes: 0 right, 10 wrong; anything else means that the grading itself failed.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import traceback

LIMIT = 1_000_000  # bytes of a file or of an output
WRONG = 10


class Wrong(Exception):
    """The result is wrong, with the reason."""


def read(path):
    """The text of a regular file; never follows a link or waits for a pipe."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Wrong(f"cannot read {os.path.basename(path)}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Wrong(f"{os.path.basename(path)} is not a regular file")
    with open(fd, "rb") as file:
        data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise Wrong(f"{os.path.basename(path)} is too large")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Wrong(f"{os.path.basename(path)} is not UTF-8") from None


def read_json(path):
    """The JSON value in a file."""
    try:
        return json.loads(read(path))
    except (ValueError, RecursionError) as error:
        raise Wrong(f"{os.path.basename(path)} is not JSON: {error}") from None


def run(argv, text="", seconds=10, cwd=None):
    """The standard output of a program that gets `text` and must end with exit code 0."""
    variables = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        program = subprocess.Popen(
            argv, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=cwd or scratch, env=variables, start_new_session=True,
        )
        timer = threading.Timer(seconds, kill, [program])
        timer.start()
        try:
            output = program.stdout.read(LIMIT + 1)
            if len(output) > LIMIT:
                raise Wrong("the program prints too much")
            code = program.wait()
        finally:
            timer.cancel()
            kill(program)
            program.stdout.close()
            program.wait()
    if code != 0:
        raise Wrong(f"the program ended with {code} (a negative number is a signal)")
    return output.decode("utf-8", "replace")


def kill(program):
    """End a program with everything that it started in its group."""
    try:
        os.killpg(program.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


CALLER = """
import importlib, json, os, sys
folder, module, calls = json.load(sys.stdin)
answers = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
sys.path.insert(0, folder)
module = importlib.import_module(module)
json.dump([[getattr(module, name)(*given), given] for name, given in calls], answers)
answers.close()
"""


def call(folder, module, calls):
    """[result, arguments afterwards] of each [function, arguments], in a process of their own."""
    text = run([sys.executable, "-I", "-B", "-c", CALLER], json.dumps([folder, module, calls]))
    try:
        results = json.loads(text)
    except (ValueError, RecursionError):
        raise Wrong(f"{module} gave no results") from None
    if not isinstance(results, list) or len(results) != len(calls):
        raise Wrong(f"{module} gave no results")
    return results


def expect(what, found, wanted):
    """Stop unless `found` is what is wanted."""
    if found != wanted:
        raise Wrong(f"{what}: expected {wanted!r:.200}, found {found!r:.200}")


def main(check):
    """Grade the workspace named on the command line and exit with the verdict."""
    # What is checked runs from here on and must not find the expected results.
    shutil.rmtree(os.path.dirname(os.path.abspath(__file__)), ignore_errors=True)
    try:
        check(sys.argv[1])
    except Wrong as wrong:
        print(f"wrong: {wrong}")
        sys.exit(WRONG)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    print("right")
