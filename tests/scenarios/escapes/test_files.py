"""Links that lead elsewhere, in what is uploaded, downloaded, read and collected."""

import os
import tempfile
from pathlib import Path

import pytest

from proctor.kernel.errors import EnvironmentFault

SECRET = "host-secret-4712"
TRAPS = {
    "link to a file": "ln -s {secret} trap",
    "link to a folder": "mkdir d; ln -s {place} d/inner; ln -s d trap",
    "link in a tree": "mkdir trap; ln -s {secret} trap/inner",
    "link out by dots": "mkdir trap; ln -s ../../../../../../../../..{secret} trap/inner",
    "link through process 1": "mkdir trap; ln -s /proc/1/root{secret} trap/inner",
    "link exchanged for a folder": "mkdir -p trap/a; ln -s {place} trap/a/b",
    "named pipe": "mkfifo trap",
    "pipe in a tree": "mkdir trap; mkfifo trap/pipe",
    "socket in a tree": 'mkdir trap; python3 -c "import socket; '
    "socket.socket(socket.AF_UNIX).bind('trap/s')\"",
}


@pytest.fixture
def secret():
    place = Path(tempfile.mkdtemp(prefix="host-secret-"))
    place.chmod(0o755)
    (place / "key.txt").write_text(SECRET)
    yield place / "key.txt"
    (place / "key.txt").unlink()
    place.rmdir()


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_traps_bring_nothing_of_the_host_out(sandbox, secret, tmp_path, trap):
    async def case(session):
        made = await session.exec(trap.format(secret=secret, place=secret.parent))
        assert made.ok, made
        refusals = 0
        for number, path in enumerate(("trap", "trap/inner", "trap/a", "trap/inner/key.txt")):
            for action in (
                lambda p=path: session.read(p),
                lambda p=path, n=number: session.download(p, tmp_path / f"{n}"),
            ):
                try:
                    data = await action()
                except (EnvironmentFault, FileNotFoundError):
                    refusals += 1
                else:
                    assert SECRET.encode() not in (data or b"")
        return refusals

    assert sandbox.hold(case) > 0
    for path in tmp_path.rglob("*"):
        assert not path.is_symlink() or str(secret.parent) not in os.readlink(path)
        if path.is_file():
            assert SECRET not in path.read_text(errors="replace")


@pytest.mark.parametrize("trap", ["ln -s {secret} trap", "ln -s {place} trap"])
def test_traps_carry_nothing_to_the_host(sandbox, secret, tmp_path, trap):
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "key.txt").write_text("overwritten")

    async def case(session):
        await session.exec(trap.format(secret=secret, place=secret.parent))
        for action in (
            lambda: session.write("trap", b"overwritten"),
            lambda: session.write("trap/key.txt", b"overwritten"),
            lambda: session.upload(tmp_path / "tree", "trap"),
            lambda: session.remove("trap/key.txt"),
            lambda: session.remove("trap"),
        ):
            try:
                await action()
            except (EnvironmentFault, FileNotFoundError, NotADirectoryError):
                continue

    sandbox.hold(case)
    assert secret.read_text() == SECRET


def test_hard_links_reach_no_file_of_the_host(sandbox, secret):
    script = f"""
        ln {secret} trap; ln /etc/shadow trap2; ln /proc/1/root{secret} trap3
        python3 -c "import os; os.link('/proc/self/exe', 'own', follow_symlinks=True)"
        for f in trap trap2 trap3; do [ -e $f ] && cat $f; done; echo end
    """
    result = sandbox.run(script)
    assert SECRET not in result.stdout
    assert result.stdout.endswith("end\n")
    assert secret.stat().st_nlink == 1


def test_programs_of_the_host_are_not_changed_through_the_sandbox(sandbox):
    python = os.path.realpath("/usr/bin/env")
    before = os.stat(python)
    script = f"echo x >> {python}; chmod 777 {python}; touch /usr/bin/planted; echo end"
    assert sandbox.run(script).stdout.endswith("end\n")
    after = os.stat(python)
    assert (before.st_size, before.st_mode) == (after.st_size, after.st_mode)
    assert not Path("/usr/bin/planted").exists()
