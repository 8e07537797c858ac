"""The other side of tests tells everything that was done to it, however much that is."""

import asyncio
import tempfile

from proctor.testing.otherside import ask, ask_now, other_side


def test_its_whole_log_is_told_whatever_its_length():
    keys = [f"{number:06d}{'k' * 1000}" for number in range(300)]

    async def do(socket):
        for key in keys[:150]:
            await ask(socket, {"do": key})
        for key in keys[150:]:
            ask_now(socket, {"do": key})
        return (await ask(socket, {"log": True}))["keys"]

    with tempfile.TemporaryDirectory() as folder, other_side(f"{folder}/s"):
        told = asyncio.run(do(f"{folder}/s"))
        assert told == keys
        assert ask_now(f"{folder}/s", {"log": True})["keys"] == keys
