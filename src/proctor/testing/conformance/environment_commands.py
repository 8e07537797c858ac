"""Commands: results, limits, output, process groups."""

import asyncio
import json
import math
import os
import time
from unittest import mock

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec, Resources
from proctor.testing.conformance.environment_base import COMMAND_LIMIT_S, EnvironmentCases, sh


class CommandCases(EnvironmentCases):
    """What `exec` promises."""

    def test_exit_codes_are_results(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            for code in (0, 1, 3, 125):
                result = await session.exec(f"exit {code}")
                assert (result.exit_code, result.ok) == (code, code == 0)
            killed = await session.exec("kill -KILL $$")
            assert killed.exit_code in (-9, 137)
            group = await session.exec("sleep 60 & kill -KILL 0")
            assert group.exit_code in (-9, 137), "a command that kills its own group is no fault"
            assert (await session.exec(["proctor-no-such-program"])).exit_code == 127
            assert (await session.exec(["/etc/passwd"])).exit_code == 126
            assert (await session.exec("true", cwd="no/such/folder")).exit_code != 0

        self.run(case)

    def test_argv_is_not_seen_by_a_shell(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            words = ["a b", "$HOME", "'\"", "*", "", "ü\n"]
            script = "import json, sys; print(json.dumps(sys.argv[1:]))"
            result = await session.exec(["python3", "-c", script, *words])
            assert json.loads(result.stdout) == words, result

        self.run(case)

    def test_starts_in_the_workspace_and_in_cwd(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            assert (await sh(session, "pwd")).stdout.strip() == session.resolve(".")
            await sh(session, "mkdir -p deep/er")
            inner = await session.exec("pwd", cwd="deep/er")
            assert inner.stdout.strip() == session.resolve("deep/er")
            tests = await session.exec("pwd", cwd=session.paths.logs)
            assert tests.stdout.strip() == session.paths.logs

        self.run(case)

    def test_workdir_of_the_specification(self) -> None:
        async def case() -> None:
            plain = self.spec()
            spec = EnvironmentSpec(
                absolute_paths=plain.absolute_paths, workdir="inner/place", network=plain.network
            )
            async with self.opened(spec) as session:
                assert (await sh(session, "pwd")).stdout.strip() == session.resolve("inner/place")

        self.run_bare(case)

    def test_variables_and_secrets(self) -> None:
        async def case() -> None:
            plain = self.spec()
            spec = EnvironmentSpec(
                absolute_paths=plain.absolute_paths,
                network=plain.network,
                env={"FROM_SPEC": "spec", "BOTH": "spec"},
            )
            with mock.patch.dict(
                os.environ, {"OPENAI_API_KEY": "sk-leak-1234", "FOO": "leak-5678"}
            ):
                async with self.opened(spec) as session:
                    result = await session.exec("env", env={"BOTH": "call", "CALL": "a=b c\nd"})
                    everything = await sh(session, "cat /proc/self/environ")
            assert "leak-" not in result.stdout + everything.stdout
            for line in ("FROM_SPEC=spec", "BOTH=call", "CALL=a=b c"):
                assert line in result.stdout.splitlines()
            assert "CALL" not in everything.stdout
            for name, value in session.script_env().items():
                assert f"{name}={value}" in result.stdout.splitlines()
            assert any(line.startswith("HOME=/") for line in result.stdout.splitlines())

        self.run_bare(case)

    def test_stdin_is_closed_or_given(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            nothing = await session.exec("cat; echo end", timeout_s=COMMAND_LIMIT_S)
            assert (nothing.stdout, nothing.timed_out) == ("end\n", False)
            big = os.urandom(1_500_000)
            counted = await session.exec("wc -c", stdin=big, timeout_s=COMMAND_LIMIT_S)
            assert counted.stdout.strip() == str(len(big))
            for reader in ("true", "exec 0<&-; true", "head -c 10 > /dev/null"):
                unread = await session.exec(reader, stdin=big, timeout_s=COMMAND_LIMIT_S)
                assert unread.exit_code == 0, reader

        self.run(case)

    def test_a_lingering_child_does_not_delay(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            began = time.monotonic()
            result = await session.exec("sleep 60 & echo hi", timeout_s=30)
            assert time.monotonic() - began < 10
            assert (result.exit_code, result.stdout, result.timed_out) == (0, "hi\n", False)
            if self.tells_lingering:
                assert result.lingering
                assert not (await session.exec("echo hi")).lingering

        self.run(case)

    def test_timeout_kills_and_keeps_the_output(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            await session.exec("true")
            began = time.monotonic()
            script = "echo so far; sleep 60 & trap '' TERM INT HUP; wait; sleep 60"
            result = await session.exec(script, timeout_s=1)
            assert result.timed_out
            assert 0.9 < time.monotonic() - began < 10
            assert (result.exit_code, result.ok, result.stdout) == (None, False, "so far\n")

        self.run(case)

    def test_nothing_of_a_killed_group_runs_on(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            # Each child holds the lock file open for as long as it lives.
            hold = "exec 9> lock; flock 9; echo held; sleep 60 & sleep 60 & wait"
            result = await session.exec(hold, timeout_s=1)
            assert (result.timed_out, result.stdout) == (True, "held\n")
            free = await session.exec("flock -n lock true")
            assert free.exit_code == 0, "a process of the killed group still holds its lock"

        self.run(case)

    def test_decoding_never_fails(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            odd = await session.exec(r"printf 'fo\200\377o'")
            assert odd.stdout == "fo\ufffd\ufffdo"
            assert odd.stdout_raw == b"fo\x80\xffo"
            # A 3-byte character that lies across every 64 KiB read boundary.
            await session.write("euro.txt", b"x" * 65_535 + "€".encode() * 50_000)
            split = await session.exec("cat euro.txt")
            assert split.stdout == "x" * 65_535 + "€" * 50_000
            assert split.stdout_raw is None

        self.run(case)

    def test_output_is_bounded(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            script = "printf START; head -c 5000000 /dev/zero | tr '\\0' y; printf END; exit 3"
            result = await session.exec(script, output_limit_bytes=100_000)
            assert (result.exit_code, result.truncated) == (3, True)
            assert result.dropped_bytes == 5_000_008 - 100_000
            assert result.stdout.startswith("STARTyyy")
            assert result.stdout.endswith("yyyEND")
            assert str(result.dropped_bytes) in result.stdout
            assert len(result.stdout) < 100_100

        self.run(case)

    def test_limits_chosen_by_a_model_are_clamped(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            for odd in (-1.0, 0.0, math.nan, math.inf, 1e300):
                result = await session.exec("echo in time", timeout_s=odd)
                assert result.stdout == "in time\n", odd

        self.run(case)

    def test_long_scripts(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            text = "ü" * 200_000
            script = f"cat > long.txt <<'EOF'\n{text}\nEOF\nwc -c < long.txt"
            assert (await sh(session, script)).stdout.strip() == "400001"

        self.run(case)

    def test_memory_of_a_command_is_limited(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            hungry = "python3 -c 'x = bytearray(600_000_000); print(len(x))'"
            tight = await session.exec(hungry, resources=Resources(memory_mb=200))
            assert not tight.ok, tight
            assert "600000000" not in tight.stdout

        self.run(case)

    def test_many_at_once(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            results = await asyncio.gather(
                *(session.exec(f"echo {n}; exit {n}", timeout_s=120) for n in range(64))
            )
            assert [r.stdout for r in results] == [f"{n}\n" for n in range(64)]
            assert [r.exit_code for r in results] == list(range(64))

        self.run(case)

    def test_cancelling_ends_the_command(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            await sh(session, "true")
            command = asyncio.create_task(
                session.exec("exec 9> lock; flock 9; touch locked; sleep 60 & wait")
            )
            await sh(session, "until [ -e locked ]; do :; done")
            command.cancel()
            results = await asyncio.gather(command, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)
            assert (await session.exec("flock -n lock true")).exit_code == 0

        self.run(case)
