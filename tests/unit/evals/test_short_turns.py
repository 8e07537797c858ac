"""The event loop of `proctor run` takes few events a turn."""

import asyncio
import selectors
import socket

import pytest

from proctor.evals.loop import EVENTS_A_TURN, new_loop

pytestmark = pytest.mark.skipif(
    not hasattr(selectors, "EpollSelector"), reason="this system has no epoll"
)


def test_a_turn_takes_few_of_many_ready_events_and_none_is_lost_or_starved():
    pairs = [socket.socketpair() for _ in range(100)]
    seen, turns = [], []
    with asyncio.Runner(loop_factory=new_loop) as runner:
        loop = runner.get_loop()

        async def main():
            everything = loop.create_future()

            def readable(number):
                pairs[number][0].recv(1)
                seen.append(number)
                if len(seen) == len(pairs):
                    everything.set_result(None)

            for number, (near, far) in enumerate(pairs):
                near.setblocking(False)
                loop.add_reader(near, readable, number)
                far.send(b"x")

            def turn(before=0):
                turns.append(len(seen) - before)
                if not everything.done():
                    loop.call_soon(turn, len(seen))

            loop.call_soon(turn)
            await asyncio.wait_for(everything, 60)
            for near, _ in pairs:
                loop.remove_reader(near)

        runner.run(main())
    assert sorted(seen) == list(range(100))
    assert max(turns) <= EVENTS_A_TURN
    for near, far in pairs:
        near.close()
        far.close()


def test_readers_writers_and_timers_work_as_in_any_loop():
    async def main():
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(60):
            payload = b"x" * 1_000_000  # more than a socket holds: it must wait to write
            sending = asyncio.ensure_future(loop.sock_sendall(near, payload))
            got = b""
            while len(got) < len(payload):
                got += await loop.sock_recv(far, 65_536)
            await sending
        before = loop.time()
        await asyncio.sleep(0.005)
        assert loop.time() - before >= 0.005
        near.close()
        far.close()
        return got == payload

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main())
