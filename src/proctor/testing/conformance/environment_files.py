"""Files: transfer both ways, and everything that a hostile tree may try."""

# ruff: noqa: ASYNC240 - small files, made while nothing else runs on the loop

import os
import tempfile
from pathlib import Path

from proctor.environments.contract import EnvironmentSession, EnvironmentSpec
from proctor.testing.conformance.environment_base import EnvironmentCases, refused, sh

SECRET = b"a secret of the host"


class FileCases(EnvironmentCases):
    """What `upload`, `download`, `read`, `write` and `remove` promise."""

    def test_write_and_read(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            data = bytes(range(256)) * 4_000
            await session.write("a/b/ü c.bin", data)
            assert await session.read("a/b/ü c.bin") == data
            assert await session.read(session.resolve("a/b/ü c.bin")) == data
            await session.write("run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
            assert (await sh(session, "./run.sh; wc -c < 'a/b/ü c.bin'")).stdout == (
                f"ran\n{len(data)}\n"
            )
            await session.write("a/b/ü c.bin", b"")
            assert await session.read("a/b/ü c.bin") == b""
            await session.write(f"{session.paths.logs}/verifier/x.txt", b"1")
            assert (await sh(session, f"cat {session.paths.logs}/verifier/x.txt")).stdout == "1"

        self.run(case)

    def test_reading_what_is_no_file(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            await sh(session, "mkdir folder; mkfifo pipe; ln -s folder link; echo 12345 > five")
            for missing in ("nothing", "no/thing", f"{session.paths.logs}/verifier/reward.txt"):
                try:
                    await session.read(missing)
                except FileNotFoundError:
                    continue
                raise AssertionError(f"reading {missing} must raise FileNotFoundError")
            for path in ("folder", "pipe", "link"):
                with refused("not_a_file"):
                    await session.read(path)
            with refused("too_large"):
                await session.read("five", limit_bytes=5)
            assert await session.read("five", limit_bytes=6) == b"12345\n"

        self.run(case)

    def test_links_that_lead_in_a_circle_are_links(self) -> None:
        """Whoever works inside can make them: they are no failure of the place."""

        async def case(session: EnvironmentSession) -> None:
            await sh(session, "ln -s self self; ln -s two one; ln -s one two")
            with tempfile.TemporaryDirectory() as host:
                for path in ("self", "one", "self/x"):
                    for action in (session.read(path), session.download(path, Path(host, "copy"))):
                        with refused("not_a_file", "refused_path"):
                            await action
            await session.write("self", b"mine")
            assert await session.read("self") == b"mine"
            await session.remove("one")
            assert (await sh(session, "ls")).stdout.split() == ["self", "two"]

        self.run(case)

    def test_links_lead_nowhere(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            with tempfile.TemporaryDirectory() as host:
                secret = Path(host, "secret.txt")
                secret.write_bytes(SECRET)
                os.chmod(host, 0o755)  # noqa: S103 - the trap must be open to everyone
                await sh(
                    session, f"ln -s {secret} file; ln -s {host} folder; mkdir d; ln -s / d/up"
                )
                for path in ("file", "folder/secret.txt", f"d/up{secret}"):
                    with refused("not_a_file", "refused_path"):
                        await session.read(path)
                    with refused("not_a_file", "refused_path"):
                        await session.download(path, Path(host, "copy"))
                await session.write("file", b"mine")
                with refused("refused_path"):
                    await session.write("folder/secret.txt", b"mine")
                with refused("refused_path"):
                    await session.remove("folder/secret.txt")
                with refused("refused_path"):
                    await session.upload(secret, "folder/new.txt")
                await session.remove("d")
                await session.remove("folder")
                assert await session.read("file") == b"mine"
                assert sorted(os.listdir(host)) == ["secret.txt"]
                assert secret.read_bytes() == SECRET

        self.run(case)

    def test_paths_outside_are_refused(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            ups = "../" * 20
            for path in (ups + "proc/self/environ", "/proc/self/environ", "nul\0byte"):
                with refused("refused_path"):
                    await session.read(path)
                with refused("refused_path"):
                    await session.write(path, b"x")
                with refused("refused_path"):
                    await session.remove(path)
                with refused("refused_path"):
                    await session.upload(Path(__file__), path)
            with refused("refused_path"):
                await session.remove("/")

        self.run(case)

    def test_trees_travel_both_ways(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            with tempfile.TemporaryDirectory() as host:
                tree = Path(host, "tree")
                Path(tree, "a/b").mkdir(parents=True)
                Path(tree, "empty").mkdir()
                Path(tree, "a/b/data.bin").write_bytes(os.urandom(700_000))
                Path(tree, "a/ü.txt").write_text("text", "utf-8")
                Path(tree, "run.sh").write_text("#!/bin/sh\necho ran\n", "utf-8")
                Path(tree, "run.sh").chmod(0o755)
                Path(tree, "a/link").symlink_to("../run.sh")
                os.link(Path(tree, "run.sh"), Path(tree, "same.sh"))
                await session.write("in/kept.txt", b"kept")
                await session.upload(tree, "in")
                listing = await sh(session, "in/run.sh; in/a/link; in/same.sh; cat in/kept.txt")
                assert listing.stdout == "ran\nran\nran\nkept"
                await session.download("in", Path(host, "out"))
                assert _listing(Path(host, "out")) == {**_listing(tree), "kept.txt": b"kept"}
                await session.download("in/a/ü.txt", Path(host, "deep/er/one.txt"))
                assert Path(host, "deep/er/one.txt").read_text("utf-8") == "text"

        self.run(case)

    def test_uploads_refuse_odd_files(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            with tempfile.TemporaryDirectory() as host:
                for number, target in enumerate(("/etc/passwd", "../x", "a/../../x", "..")):
                    tree = Path(host, f"links{number}")
                    tree.mkdir()
                    Path(tree, "link").symlink_to(target)
                    with refused("refused_path"):
                        await session.upload(tree, "in")
                os.mkfifo(Path(host, "pipe"))
                Path(host, "top").symlink_to("links0")
                for name in ("pipe", "top"):
                    with refused("not_a_file"):
                        await session.upload(Path(host, name), "in2")
                try:
                    await session.upload(Path(host, "missing"), "in3")
                except FileNotFoundError:
                    return
                raise AssertionError("uploading a missing file must raise FileNotFoundError")

        self.run(case)

    def test_downloads_refuse_odd_files(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            await sh(
                session,
                "mkdir pipes abs dots deep big; mkfifo pipes/p; ln -s /etc/passwd abs/l;"
                "ln -s ../.. dots/l; ln -s . deep/s; ln -s s/../../x deep/l;"
                "truncate -s 50G big/file",
            )
            with tempfile.TemporaryDirectory() as host:
                with refused("not_a_file"):
                    await session.download("pipes", Path(host, "out"))
                for tree in ("abs", "dots", "deep"):
                    with refused("refused_path"):
                        await session.download(tree, Path(host, "out"))
                with refused("too_large"):
                    await session.download("big", Path(host, "out"))
                assert not Path(host, "x").exists()
                with refused("too_large"):
                    await session.download("big", Path(host, "out"), limit_bytes=1)

        self.run(case)

    def test_uploads_replace_what_the_agent_put_there(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            tests = session.paths.tests
            with tempfile.TemporaryDirectory() as host:
                Path(host, "test.sh").write_text("echo real", "utf-8")
                await sh(
                    session,
                    f"mkdir -p {tests}; touch {tests}/planted; echo fake > real;"
                    f"ln -s $PWD/real {tests}/test.sh",
                )
                await session.upload(Path(host), tests)
                assert (await sh(session, f"sh {tests}/test.sh; cat real")).stdout == (
                    "real\nfake\n"
                )
                await session.remove(tests)
                await session.upload(Path(host), tests)
                assert (await sh(session, f"ls {tests}")).stdout == "test.sh\n"

        self.run(case)

    def test_remove_copes_with_locked_and_deep_trees(self) -> None:
        async def case(session: EnvironmentSession) -> None:
            await sh(
                session,
                "mkdir -p t/locked/in; touch t/locked/in/f; chmod 000 t/locked/in t/locked;"
                "mkdir t/many; cd t/many; seq 1 3000 | xargs touch",
            )
            # Deeper than the stack of a recursive removal and than the longest path name.
            dig = "import os\nfor _ in range(600): os.mkdir('deep' * 8); os.chdir('deep' * 8)"
            dug = await session.exec(["python3", "-c", dig], cwd="t/many")
            assert dug.ok, dug
            await session.remove("t")
            await session.remove("t")
            assert (await session.exec("ls -d t")).exit_code != 0

        self.run(case)

    def test_copies_of_the_specification(self) -> None:
        async def case() -> None:
            plain = self.spec()
            with tempfile.TemporaryDirectory() as host:
                Path(host, "tree").mkdir()
                Path(host, "tree", "one.txt").write_text("1", "utf-8")
                Path(host, "two.txt").write_text("2", "utf-8")
                copies = ((f"{host}/tree", "."), (f"{host}/two.txt", "sub/2.txt"))
                spec = EnvironmentSpec(
                    absolute_paths=plain.absolute_paths, network=plain.network, copies=copies
                )
                async with self.opened(spec) as session:
                    assert (await sh(session, "cat one.txt sub/2.txt")).stdout == "12"

        self.run_bare(case)


def _listing(tree: Path) -> dict[str, bytes | str]:
    """Contents of files, targets of links, and empty folders, by relative path."""
    found: dict[str, bytes | str] = {}
    for path in tree.rglob("*"):
        name = str(path.relative_to(tree))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not any(path.iterdir()):
            found[name] = "folder"
    return found
