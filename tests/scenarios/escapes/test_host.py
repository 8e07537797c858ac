"""Files, environment and processes of the host, and the driver itself."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from proctor.environments import proctable

SECRET = "host-secret-4711"


@pytest.fixture
def planted(monkeypatch):
    """A secret in a file that all may read, in the driver's environment, and in a command line."""
    place = Path(tempfile.mkdtemp(prefix="host-secret-"))
    place.chmod(0o755)
    (place / "key.txt").write_text(SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    child = subprocess.Popen(["sleep", "86397"], env={"TOKEN": SECRET}, cwd=place)
    yield place, child
    child.kill()
    child.wait()
    (place / "key.txt").unlink()
    place.rmdir()


def test_files_and_environment_of_the_host_are_not_read(sandbox, planted):
    place, child = planted
    script = f"""
        cat {place}/key.txt /proc/1/root{place}/key.txt /proc/self/root{place}/key.txt
        cat /proc/{child.pid}/environ /proc/{child.pid}/cwd/key.txt /proc/*/environ | tr '\\0' '\\n'
        cat /etc/shadow /root/.ssh/* /proc/kcore /dev/mem /dev/kmsg 2>&1 | head -c 1000 | grep '\\$'
        for p in /proc/[0-9]*; do ls $p/root{place} $p/cwd/; done
        find / -xdev -name key.txt
        mount -t proc proc /mnt; mount --bind / /mnt; chroot /proc/1/root cat {place}/key.txt
        unshare -Urm cat {place}/key.txt; nsenter -t 1 -m cat {place}/key.txt
        debugfs -R 'cat {place}/key.txt' /dev/vda; dd if=/dev/vda bs=1M count=1 | strings
    """
    result = sandbox.run(script)
    assert SECRET not in result.stdout + result.stderr
    assert "key.txt" not in result.stdout


def test_processes_of_the_host_are_neither_seen_nor_killed(sandbox, planted):
    _, child = planted
    source = f"""
import os, signal
seen = [p for p in os.listdir('/proc') if p.isdigit()]
for p in seen:
    line = open(f'/proc/{{p}}/cmdline').read()
    words = line.split('\\0')
    if words[1:2] == ['86397'] or words[0].endswith('pytest'): print('sees', p)
for target in ({child.pid}, {os.getpid()}, {os.getppid()}):
    if str(target) in seen: continue
    try: os.kill(target, signal.SIGKILL); print('killed', target)
    except ProcessLookupError: pass
os.kill(-1, signal.SIGKILL)
"""
    result = sandbox.python(source)
    assert "sees" not in result.stdout
    assert "killed" not in result.stdout
    assert child.poll() is None


def test_the_driver_cannot_be_traced_or_reached_by_sockets(sandbox):
    name = f"\0proctor-escape-{os.getpid()}"
    import socket

    with socket.socket(socket.AF_UNIX) as listener, tempfile.TemporaryDirectory() as place:
        listener.bind(name)
        listener.listen()
        os.chmod(place, 0o755)
        with socket.socket(socket.AF_UNIX) as filed:
            filed.bind(f"{place}/driver.sock")
            filed.listen()
            source = f"""
import os, socket, ctypes
for path in ({name!r}, {place + "/driver.sock"!r}):
    try: socket.socket(socket.AF_UNIX).connect(path); print('connected', path)
    except OSError: pass
libc = ctypes.CDLL(None)
if libc.ptrace(16, {os.getpid()}, 0, 0) == 0: print('traced')
for fd in os.listdir('/proc/self/fd'):
    try: print('fd', fd, os.readlink(f'/proc/self/fd/{{fd}}'))
    except OSError: pass
"""
            result = sandbox.python(source)
    assert "connected" not in result.stdout
    assert "traced" not in result.stdout
    for line in result.stdout.splitlines():
        assert "memfd" not in line
        assert "net:[" not in line


def test_a_daemon_does_not_survive(sandbox):
    line = "setsid nohup sh -c 'sleep 86396 & sleep 86396' > /dev/null 2>&1 & sleep 0.2; echo up"
    since = proctable.newest_pid()

    async def case(session):
        assert (await session.exec(line, timeout_s=60)).stdout == "up\n"
        await session.kill_processes()
        return living(since)

    assert sandbox.hold(case) == []
    assert living(since) == []


def living(since):
    found = []
    for pid in proctable.pids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if pid > since and b"86396" in line and proctable.runs(pid):
            found.append(pid)
    return found


def test_capabilities_and_set_user_id_programs_give_nothing(sandbox):
    source = """
import os, subprocess
lines = open('/proc/self/status').read().splitlines()
status = dict(line.split(':\\t', 1) for line in lines if ':\\t' in line)
held = int(status['CapEff'], 16) | int(status['CapPrm'], 16) | int(status['CapBnd'], 16)
# CAP_SYS_ADMIN 21, CAP_NET_ADMIN 12, CAP_SYS_PTRACE 19, CAP_SYS_MODULE 16, CAP_SYS_RAWIO 17,
# CAP_DAC_READ_SEARCH 2, CAP_SYS_BOOT 22
for number in (21, 12, 19, 16, 17, 2, 22):
    if held >> number & 1: print('capability', number)
print('no new privileges', status.get('NoNewPrivs', '0').strip())
"""
    result = sandbox.python(source)
    assert "capability" not in result.stdout, result.stdout
    if sandbox.provider.name == "bubblewrap":
        assert "no new privileges 1" in result.stdout
