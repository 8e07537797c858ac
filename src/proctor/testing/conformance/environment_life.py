"""Opening, closing, vanishing, separation."""

import asyncio
import time
from dataclasses import replace

from proctor.environments.contract import EnvironmentSession
from proctor.testing.conformance.environment_base import LABELS, EnvironmentCases, refused, sh


class LifeCases(EnvironmentCases):
    """What `open`, `alive`, `close` and `kill_processes` promise."""

    def test_it_can_run_here(self) -> None:
        environment = self.environment()
        assert environment.requirements() == []
        assert environment.problems(self.spec()) == []

    def test_unsupported_specifications_are_refused(self) -> None:
        async def case() -> None:
            for spec in self.unsupported():
                environment = self.environment()
                assert environment.problems(spec), spec
                with refused("unsupported"):
                    await environment.open(spec, LABELS)

        self.run_bare(case)

    def test_specifications_survive_json(self) -> None:
        for spec in (self.spec(), *self.unsupported()):
            assert type(spec).from_json(spec.to_json()) == spec

    def test_close_is_idempotent_and_final(self) -> None:
        async def case() -> None:
            unused = await self.environment().open(self.spec(), LABELS)
            await unused.close()
            session = await self.environment().open(self.spec(), LABELS)
            assert await session.alive()
            await sh(session, "echo 1 > file")
            assert await session.alive()
            await asyncio.gather(session.close(), session.close())
            await session.close()
            assert not await session.alive()
            with refused("environment_gone"):
                await session.exec("true")
            with refused("environment_gone"):
                await session.read("file")
            with refused("environment_gone"):
                await session.write("file", b"")

        self.run_bare(case)

    def test_log_folders_are_there_before_anything_runs(self) -> None:
        async def case() -> None:
            spec = replace(self.spec(), log_folders=("agent", "of-its-own"))
            assert type(spec).from_json(spec.to_json()) == spec
            async with self.opened(spec) as session:
                logs = session.paths.logs
                await sh(session, f"echo 1 > {logs}/agent/f && echo 2 > {logs}/of-its-own/f")

        self.run_bare(case)

    def test_close_copes_with_hostile_trees(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            await sh(
                session,
                "mkdir -p a/b; touch a/b/c; chmod 000 a/b a; ln -s / root; mkfifo p;"
                f"chmod 000 {session.paths.logs} {session.paths.workspace}",
            )

        self.run(case)

    def test_close_ends_running_commands(self) -> None:
        async def case() -> None:
            session = await self.environment().open(self.spec(), LABELS)
            began = time.monotonic()
            command = asyncio.create_task(session.exec("touch started; sleep 60; sleep 60"))
            await sh(session, "until [ -e started ]; do :; done")
            await session.close()
            await asyncio.gather(command, return_exceptions=True)
            assert time.monotonic() - began < 30

        self.run_bare(case)

    def test_kill_processes_reaches_daemons(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            await sh(
                session,
                "setsid sh -c 'exec 9> lock; flock 9; touch locked; sleep 60' > /dev/null 2>&1 &"
                "until [ -e locked ]; do :; done",
            )
            await session.kill_processes()
            assert (await session.exec("flock -n lock true")).exit_code == 0

        self.run(case)

    def test_sessions_are_separate(self) -> None:
        async def case() -> None:
            async with self.opened() as one, self.opened() as two:
                await one.write("file", b"one")
                await two.write("file", b"two")
                await sh(one, "echo mine > $HOME/h; echo mine > ${TMPDIR:-/tmp}/t")
                assert (await two.exec("cat $HOME/h ${TMPDIR:-/tmp}/t")).stdout == ""
                assert (await sh(one, "cat file")).stdout == "one"
                assert (await sh(two, "cat file")).stdout == "two"

        self.run_bare(case)

    def test_well_known_places(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            for folder in (session.paths.logs, session.paths.workspace):
                await sh(session, f"test -d {folder} && echo 1 > {folder}/f")
            assert session.resolve("x") == f"{session.paths.workspace}/x"

        self.run(case)
