"""Provider `bubblewrap` against hostile code, beyond the conformance suite."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import pytest
from pydantic import ValidationError

from proctor.environments import cgroups, grouping, proctable
from proctor.environments.bubblewrap import BubblewrapEnvironment, BubblewrapOptions, provider
from proctor.environments.bubblewrap import machine as machine_module
from proctor.environments.bubblewrap.machine import SANDBOX_ID, machine
from proctor.environments.contract import EnvironmentSpec, Resources
from proctor.environments.network import NetworkMode, NetworkPhases, NetworkPolicy
from proctor.environments.owner import owner_in_name
from proctor.kernel.errors import EnvironmentFault

REPOSITORY = Path(__file__).resolve().parents[3]
OFF = NetworkPolicy(NetworkMode.NO_NETWORK)
OFFLINE = EnvironmentSpec(absolute_paths=True, network=NetworkPhases(OFF, OFF, OFF))
PUBLIC = EnvironmentSpec(absolute_paths=True)

pytestmark = pytest.mark.usefixtures("leak_free")


@pytest.fixture(autouse=True)
def _installed(need):
    problems = BubblewrapEnvironment().requirements()
    need(not problems, "; ".join(problems))


def inside(case, spec=OFFLINE, options=None):
    """Run `case(session)` in a sandbox; nothing of it may be left on the host."""

    async def body():
        async with await BubblewrapEnvironment(options).open(spec, {"run": "r"}) as session:
            return await case(session)

    def roots():
        names = os.listdir(tempfile.gettempdir())
        return {n for n in names if (o := owner_in_name(n)) and o[0] == os.getpid()}

    before = roots()
    result = asyncio.run(body())
    assert roots() == before
    return result


def run(script, spec=OFFLINE, options=None, **more):
    """The result of one script in a new sandbox."""
    more.setdefault("timeout_s", 60)
    return inside(lambda session: session.exec(script, **more), spec, options)


def python(source, spec=OFFLINE, **more):
    return run(["python3", "-I", "-c", source], spec, **more)


# --- the host's files


@pytest.fixture
def secret(tmp_path):
    """A file of the host that everybody may read, in a folder that everybody may enter."""
    place = Path(tempfile.mkdtemp(prefix="host-secret-"))
    place.chmod(0o755)
    (place / "key.txt").write_text("host-secret-4711")
    yield place / "key.txt"
    (place / "key.txt").unlink()
    place.rmdir()


def test_files_of_the_host_are_not_there(secret):
    # From inside, by every way that a path can take.
    script = f"""
        cat {secret} /proc/1/root{secret} /proc/self/root{secret} /oldroot{secret} /newroot{secret}
        cat /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/* /root/.*rc /root/.ssh/*
        ls /home/* {REPOSITORY} /proc/1/cwd/ /proc/1/fd /sys
        find / -xdev -name key.txt 2>/dev/null
        python3 -c "import os; [print(os.listdir(f'/proc/{{p}}/root')) for p in range(1, 9)]"
        grep -r host-secret /tmp /root /home /run /var /proc/*/environ /proc/*/mountinfo
    """
    result = run(script, env={"SCRIPT": "x"})
    assert "host-secret" not in result.stdout
    assert "pyproject.toml" not in result.stdout
    assert "key.txt" not in result.stdout
    # Entries of the host's /etc/shadow never appear, and no name of a host's user does.
    assert ":$" not in result.stdout
    (names,) = (run("cut -d: -f1 /etc/passwd").stdout,)
    assert names.split() == ["root", "daemon", "nobody"]


def test_the_drivers_variables_are_not_there(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "leak-4711")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/leak-4711")
    result = run("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'")
    assert "leak" not in result.stdout


def test_variables_of_a_command_are_in_no_command_line():
    shown = run("cat /proc/*/cmdline | tr '\\0' '\\n'", env={"TOKEN": "secret-token-4711"})
    assert shown.ok
    assert "secret-token-4711" not in shown.stdout


def test_the_system_cannot_be_written():
    targets = (
        "/usr",
        "/bin",
        "/lib",
        "/usr/local/bin",
        "/dev",
        "/.system",
        "/.system/etc",
        "/proc",
    )
    for target in targets:
        result = run(f"touch {target}/planted")
        assert not result.ok, target
        assert not Path(target, "planted").exists()
    remounts = "mount -o remount,rw /usr; mount --bind /tmp /usr; umount /usr; touch /usr/planted"
    assert not run(remounts).ok
    assert not Path("/usr/planted").exists()


def test_fixed_paths_are_private_and_arbitrary_ones_work():
    there_before = {p: os.path.exists(p) for p in ("/app", "/task", "/tests", "/logs", "/solution")}

    async def case(session):
        script = "mkdir -p /task/x /data/y; echo 1 | tee /app/f /task/x/f /data/y/f /logs/agent/f"
        assert (await session.exec(script)).ok
        again = await session.exec("cat /app/f /task/x/f /data/y/f /logs/agent/f | wc -l")
        assert again.stdout.strip() == "4"
        assert await session.read("/task/x/f") == b"1\n"
        await session.write("/etc/app/config.ini", b"x")
        assert (await session.exec("cat /etc/app/config.ini; echo y >> /etc/hosts")).ok

    inside(case)
    assert {p: os.path.exists(p) for p in there_before} == there_before
    assert not Path("/data/y").exists()
    assert not Path("/etc/app").exists()


def test_a_simple_recipe_is_honoured(tmp_path):
    (tmp_path / "context" / "sub").mkdir(parents=True)
    (tmp_path / "context" / "sub" / "run.sh").write_text("#!/bin/bash\necho from $PWD $VERSION\n")
    (tmp_path / "context" / "sub" / "run.sh").chmod(0o755)
    spec = EnvironmentSpec(
        absolute_paths=True,
        image="python:3.10",
        build=("RUN pip install numpy",),
        workdir="/task",
        env={"VERSION": "7"},
        copies=((str(tmp_path / "context"), "/task"), (str(tmp_path / "context"), "/opt/again")),
    )
    assert run("sub/run.sh; /opt/again/sub/run.sh", spec).stdout == "from /task 7\n" * 2
    ((code, message),) = BubblewrapEnvironment().notices(spec)
    assert code == "image_not_built"
    assert "python:3.10" in message
    assert "pip install numpy" in message


# --- traps for the driver


def test_places_of_mounts_cannot_be_exchanged(secret):
    async def case(session):
        for place in ("/etc", "/tests", "/logs", "/solution", "/usr", "/bin", "/proc", "/dev"):
            trap = f"mv {place} /moved || rmdir {place}; ln -sT {secret.parent} {place}"
            assert not (await session.exec(trap)).ok, place
        # What can be exchanged leads nowhere.
        trap = f"rm -r /var /run /tmp/..; rm -rf /app; ln -s {secret.parent} /app; ln -s / /var"
        await session.exec(trap, cwd="/")
        listed = await session.exec("ls /app /var/root; cat /app/key.txt", cwd="/")
        assert "host-secret" not in listed.stdout
        with pytest.raises(EnvironmentFault) as caught:
            await session.read("/app/key.txt")
        assert caught.value.fault_code == "refused_path"
        with pytest.raises(EnvironmentFault):
            await session.write("/app/key.txt", b"overwritten")
        with pytest.raises(EnvironmentFault):
            await session.upload(REPOSITORY / "pyproject.toml", "/app/key.txt")

    inside(case)
    assert secret.read_text() == "host-secret-4711"


def test_links_to_bwraps_own_folders_do_not_redirect_mounts():
    async def case(session):
        links = (
            "for n in lib32 libx32 sys x; do ln -s /oldroot/tmp /$n; done; ln -s /oldroot /etc/x"
        )
        await session.exec(links)
        await session.exec("rm -rf /etc/ssl /etc/alternatives; ln -s /oldroot/etc /etc/ssl")
        assert (await session.exec("echo fine")).stdout == "fine\n"

    inside(case)


def test_code_cannot_be_preloaded_into_later_programs():
    async def case(session):
        await session.exec("echo /app/evil.so > /etc/ld.so.preload")
        assert (await session.exec("ls /etc/ld.so.preload")).exit_code != 0
        await session.exec("mkdir /etc/ld.so.preload")
        assert (await session.exec("echo fine")).stdout == "fine\n"

    inside(case)


def test_protected_folders_are_emptied_not_removed():
    async def case(session):
        for path in ("/tests", "/logs", "/solution"):
            await session.write(f"{path}/a/b", b"x")
            await session.remove(path)
            assert (await session.exec(f"ls -A {path}")).stdout == ""
        with pytest.raises(EnvironmentFault):
            await session.remove("/")

    inside(case)


def test_a_command_cannot_pretend_that_the_sandbox_failed():
    lie = "echo 'bwrap: Can'\\''t mkdir' >&2; exit 1"
    result = run(lie)
    assert (result.exit_code, result.stderr) == (1, "bwrap: Can't mkdir\n")
    descriptors = run("ls -l /proc/self/fd /proc/1/fd").stdout
    assert "memfd" not in descriptors


def test_a_sandbox_that_really_fails_is_an_environment_fault(tmp_path):
    exposed = Path(tempfile.mkdtemp(prefix="host-exposed-"))
    options = BubblewrapOptions(expose=(str(exposed),))
    exposed.rmdir()
    with pytest.raises(EnvironmentFault, match="did not start") as caught:
        run("true", options=options)
    assert caught.value.fault_code == "cannot_start"
    assert str(exposed) in str(caught.value)


# --- processes


def test_processes_of_the_host_are_invisible():
    host = subprocess.Popen(["sleep", "4711"])
    try:
        listing = run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls -d /proc/[0-9]* | wc -l")
        assert "4711" not in listing.stdout
        assert int(listing.stdout.split()[-1]) < 10
        kill_all = "import os, signal\nfor p in range(2, 40000):\n"
        kill_all += "  try:\n    p != os.getpid() and os.kill(p, 9)\n  except OSError: pass\n"
        assert python(kill_all).ok
        assert host.poll() is None
    finally:
        host.kill()
        host.wait()


def test_there_are_no_capabilities_and_no_way_to_get_any():
    status = run("grep -E '^(Cap|NoNewPrivs)' /proc/self/status").stdout
    values = dict(line.split(":\t") for line in status.strip().splitlines())
    assert values.pop("NoNewPrivs") == "1"
    assert set(values.values()) == {"0" * 16}
    assert not run("unshare -r true").ok
    assert not run("mknod /tmp/disk b 254 0").ok


def test_root_inside_is_nobody_outside():
    async def case(session):
        made = await session.exec(
            "touch f; chmod 4755 f; stat -c '%u %A' f; cat /proc/self/uid_map"
        )
        owner, _, *mapped = made.stdout.split()
        assert (owner, mapped[0], mapped[2]) == ("0", "0", "1")
        return os.stat(f"{session._tree}/app/f").st_uid

    expected = SANDBOX_ID if machine().ids else os.geteuid()
    assert inside(case) == expected


def test_a_fork_bomb_is_bounded_and_over_with_its_command(need):
    need(machine().counts_processes, "this Linux does not count processes per sandbox")
    bomb = """
import os, time
made = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
        made += 1
    except OSError:
        print(made, flush=True)
        break
while True:
    try: os.fork()
    except OSError: pass
"""
    options = BubblewrapOptions(processes=64)
    since = proctable.newest_pid()
    result = inside(
        lambda session: session.exec(["python3", "-c", bomb], timeout_s=2), options=options
    )
    assert result.timed_out
    assert 20 < int(result.stdout.split()[0]) < 64
    left = [pid for pid in proctable.pids() if pid > since and b"time.sleep(600)" in _cmdline(pid)]
    assert left == []


def _cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_memory_is_bounded_per_process_where_there_are_no_control_groups(monkeypatch):
    monkeypatch.setattr(cgroups, "available", _no_groups)
    monkeypatch.setattr(grouping, "available", _no_groups)
    monkeypatch.setattr(provider, "available", _no_groups)
    eat = "x = bytearray(700_000_000)"
    spec = EnvironmentSpec(network=OFFLINE.network, resources=Resources(memory_mb=300))
    assert "MemoryError" in python(eat, spec).stderr
    assert python("x = bytearray(100_000_000)", spec).ok
    wishes = Resources(memory_mb=300, cpus=1)
    skipped, lesser = BubblewrapEnvironment().notices(EnvironmentSpec(resources=wishes))
    assert "cpus=1" in skipped[1]
    assert "for each process alone: nothing is mounted" in lesser[1]


def _no_groups():
    return cgroups.Found((), dict.fromkeys(cgroups.CONTROLLERS, "nothing is mounted"))


def test_hostile_ends_do_not_confuse_the_result():
    assert run("exec 0<&- 1>&- 2>&-; sleep 0.1; exit 5").exit_code == 5
    assert run("sleep 60 & kill -9 -1; exit 3").exit_code == 3
    assert not run("sleep 60 & exit 0").lingering
    flood = python("import os\nwhile True: os.write(1, b'x' * 65536)", timeout_s=1)
    assert flood.timed_out
    assert flood.dropped_bytes > 0


def test_a_killed_driver_takes_its_sandboxes_along():
    driver = """
import asyncio, sys
from proctor.environments.bubblewrap import BubblewrapEnvironment
from proctor.environments.contract import EnvironmentSpec
async def main():
    session = await BubblewrapEnvironment().open(EnvironmentSpec(), {})
    command = asyncio.create_task(session.exec("touch up; setsid sleep 98765 & sleep 98765"))
    await session.exec("until [ -e up ]; do :; done")
    print(session._root, flush=True)
    await command
asyncio.run(main())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    root = process.stdout.readline().strip()
    try:
        sleepers = [pid for pid in proctable.pids() if b"98765" in _cmdline(pid)]
        watched = [os.pidfd_open(pid) for pid in sleepers]
        assert len(watched) >= 2
        process.kill()
        process.wait()
        for fd in watched:  # readable when that process has ended
            assert select.select([fd], [], [], 20)[0], "a process of the sandbox lives on"
            os.close(fd)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        subprocess.run(["rm", "-rf", root], check=True)


# --- network


class Server:
    """A TCP server of the host that counts who reaches it."""

    def __init__(self, address):
        self.listener = socket.create_server((address, 0), reuse_port=False)
        self.port = self.listener.getsockname()[1]
        self.reached = 0
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self):
        while True:
            connection, _ = self.listener.accept()
            with connection:
                data = connection.recv(10)
                if data == b"stop":
                    return
                self.reached += 1
                connection.sendall(b"host")

    def close(self):
        with socket.create_connection(("127.0.0.1", self.port), 20) as connection:
            connection.sendall(b"stop")
        self.thread.join(20)
        self.listener.close()


KNOCK = """
import socket, sys
for host in sys.argv[2:]:
    try:
        with socket.create_connection((host, int(sys.argv[1])), 3) as s:
            s.sendall(b"hello")
            print(host, s.recv(10).decode())
    except OSError as error:
        print(host, "refused")
"""


def own_addresses():
    """Addresses of this machine, the loopback's and the outward one's if it has any."""
    found = ["127.0.0.1", "localhost", "0.0.0.0", "::1"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # no packet is sent
            found.append(probe.getsockname()[0])
        except OSError:
            pass
    return found


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_without_network_no_service_of_the_host_is_reached(address):
    server = Server(address)
    try:
        argv = ["python3", "-c", KNOCK, str(server.port), *own_addresses()]
        blocked = run(argv)
        assert blocked.ok, blocked
        assert "host\n" not in blocked.stdout
        assert server.reached == 0
        # The same probe reaches the server where the network is shared: it can tell.
        reached = run(argv, PUBLIC)
        assert "127.0.0.1 host" in reached.stdout
        assert server.reached >= 1
    finally:
        server.close()


def test_without_network_there_is_only_a_loopback_that_works():
    echo = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), 5)
peer, _ = server.accept()
peer.sendall(b"own"); print(client.recv(5).decode())
print([name for _, name in socket.if_nameindex()])
"""
    assert python(echo).stdout == "own\n['lo']\n"
    assert python("import socket; socket.getaddrinfo('localhost', 80); print(1)").stdout == "1\n"
    assert not python("import socket; socket.getaddrinfo('example.org', 80)").ok


def test_sockets_of_the_host_without_a_file_are_not_reached():
    name = "\0proctor-test-" + str(os.getpid())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        knock = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        assert not python(knock).ok


def test_without_privileges_the_policy_is_one_for_all_phases(monkeypatch):
    monkeypatch.setattr(provider, "switching_problem", lambda: "it takes root")

    def problems(*phases, **options):
        environment = BubblewrapEnvironment(BubblewrapOptions(**options))
        return environment.problems(EnvironmentSpec(network=NetworkPhases(*phases)))

    public = NetworkPolicy()
    listed = NetworkPolicy(NetworkMode.ALLOWLIST, ("x.org",))
    assert problems(OFF, OFF, OFF) == problems() == []
    (reason,) = problems(public, OFF, public)
    assert "cannot enforce or switch" in reason
    assert "it takes root" in reason
    for phase in ("baseline", "run", "evaluation"):
        assert f"-p environment.network.{phase}=no-network" in reason
    assert "cannot enforce or switch" in problems(listed, listed, listed)[0]
    offline = dict.fromkeys(("baseline", "run", "evaluation"), "no-network")
    assert problems(public, OFF, listed, network=offline) == []
    assert "cannot enforce or switch" in problems(public, public, public, network="no-network")[0]
    adapted = BubblewrapEnvironment(BubblewrapOptions(network=offline)).adapt(PUBLIC)
    assert adapted.network == NetworkPhases(OFF, OFF, OFF)

    async def case(session):
        await session.set_network(OFF)
        with pytest.raises(EnvironmentFault, match="cannot switch"):
            await session.set_network(public)
        return (await session.exec("ls /proc/sys/net/ipv4/conf")).stdout

    shown = inside(case, PUBLIC, BubblewrapOptions(network=offline))
    assert set(shown.split()) == {"all", "default", "lo"}


def test_options_change_single_phases_and_the_list():
    def adapted(phases, **options):
        environment = BubblewrapEnvironment(BubblewrapOptions(**options))
        spec = environment.adapt(EnvironmentSpec(network=phases))
        assert environment.adapt(spec) == spec
        return spec.network

    public = NetworkPolicy()
    listed = NetworkPolicy(NetworkMode.ALLOWLIST, ("x.org",))
    own = NetworkPolicy(NetworkMode.ALLOWLIST, ("y.org", "10.0.0.0/8"))
    task = NetworkPhases(public, listed, public)
    assert adapted(task) == task
    assert adapted(task, network={"run": "no-network"}) == NetworkPhases(public, OFF, public)
    assert adapted(task, allowed_hosts=own.hosts) == NetworkPhases(public, own, public)
    assert adapted(task, network="no-network") == NetworkPhases(public, OFF, public)
    offline = NetworkPhases(OFF, OFF, OFF)
    changed = adapted(offline, network="allowlist", allowed_hosts=own.hosts)
    assert changed == NetworkPhases(OFF, own, OFF)
    both = {"baseline": "no-network", "evaluation": "allowlist"}
    empty = NetworkPolicy(NetworkMode.ALLOWLIST)
    assert adapted(task, network=both) == NetworkPhases(OFF, listed, empty)
    environment = BubblewrapEnvironment(BubblewrapOptions(network=both))
    assert "without hosts" in environment.problems(EnvironmentSpec(network=task))[0]


# --- the provider


def test_wishes_users_and_options():
    environment = BubblewrapEnvironment()
    assert "GPU" in environment.problems(EnvironmentSpec(resources=Resources(gpus=1)))[0]
    wishes = Resources(cpus=2, memory_mb=1, storage_mb=3, pids=9)
    notices = environment.notices(EnvironmentSpec(resources=wishes))
    groups = cgroups.available().controllers
    said = " ".join(message for _, message in notices)
    assert {code for code, _ in notices} <= {"resource_not_enforced"}
    assert "storage_mb" not in said
    assert ("cpus=2" in said) is ("cpu" not in groups)
    assert ("pids" in said) is (not machine().counts_processes and "pids" not in groups)
    assert ("memory_mb=1 is enforced for each process alone" in said) is ("memory" not in groups)
    with pytest.raises(EnvironmentFault) as caught:
        run("id", user="agent")
    assert caught.value.fault_code == "unsupported"
    assert run("id -u", user="root").stdout == "0\n"
    for odd in ({"network": "none"}, {"network": {"run": "none"}}, {"network": {"start": "public"}},
                {"allowed_hosts": "x"}, {"expose": ["relative"]}, {"expose": ["/"]},
                {"expose": ["/usr/lib"]}, {"expose": ["/etc"]}, {"expose": ["/no/such"]},
                {"expose": ["/opt/"]}, {"processes": 1}, {"unknown": 1}):  # fmt: skip
        with pytest.raises(ValidationError):
            BubblewrapOptions(**odd)
    strict = BubblewrapEnvironment(BubblewrapOptions(strict_image=True))
    assert "debian" in strict.problems(EnvironmentSpec(image="debian"))[0]
    assert environment.facts()["isolation"] == "namespaces"
    assert environment.id == "bubblewrap"


def test_folders_of_the_host_can_be_exposed_read_only():
    folder = Path(tempfile.mkdtemp(prefix="host-tools-"))
    folder.chmod(0o755)
    (folder / "tool").write_text("#!/bin/sh\necho tool\n")
    (folder / "tool").chmod(0o755)
    try:
        options = BubblewrapOptions(expose=(str(folder),))
        assert run(f"{folder}/tool", options=options).stdout == "tool\n"
        assert not run(f"echo x > {folder}/tool", options=options).ok
        assert not run(f"{folder}/tool").ok
    finally:
        (folder / "tool").unlink()
        folder.rmdir()


def test_a_missing_bubblewrap_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    (message,) = BubblewrapEnvironment().requirements()
    assert "apt-get install bubblewrap" in message
    with pytest.raises(EnvironmentFault, match="apt-get install"):
        asyncio.run(BubblewrapEnvironment().open(PUBLIC, {}))


def test_a_bubblewrap_that_cannot_run_says_why(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (message,) = BubblewrapEnvironment().requirements()
    assert "No permissions to create new namespace" in message
    assert "user.max_user_namespaces" in message
    assert os.listdir(tmp_path / "tmp") == []


async def _owner_of_a_new_file(session):
    assert (await session.exec("touch /new")).ok
    return os.stat(f"{session._tree}/new").st_uid


def test_without_root_it_works_the_same(need):
    if os.geteuid() != 0:
        return  # then all of this file shows it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads: the child uses none
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(65_534, 65_534, 65_534)
            os.setresuid(65_534, 65_534, 65_534)
            os.chdir("/")
            machine_module._probed.cache_clear()
            here = machine()
            assert not isinstance(here, str), here
            assert here.ids is None
            assert here.command[0].endswith("bwrap")
            result = run("id -u; touch /app/x; ls /app; cat /proc/1/environ | wc -c")
            assert result.stdout.split()[:2] == ["0", "x"], result
            assert inside(_owner_of_a_new_file) == 65_534
            status = 0
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_sandboxes_at_once():
    async def one(number):
        async with await BubblewrapEnvironment().open(OFFLINE, {}) as session:
            await session.write("f", str(number).encode())
            return (await session.exec("cat f; ls /app", timeout_s=120)).stdout

    async def body():
        return await asyncio.gather(*(one(number) for number in range(64)))

    assert asyncio.run(body()) == [f"{number}f\n" for number in range(64)]


def test_killed_commands_are_results_of_the_agent():
    async def case(session):
        command = asyncio.create_task(session.exec("touch up; sleep 600"))
        await session.exec("until [ -e up ]; do :; done")
        await session.kill_processes()
        return await command

    result = inside(case)
    assert result.exit_code in (-signal.SIGKILL, 137)
