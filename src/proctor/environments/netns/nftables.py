"""Rules of nftables, put in force by its library: the program costs four times as much to start.

The library keeps state of its own for the whole process, and the kernel takes its time with every
change, so one thread does all changes, one after the other.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from proctor.environments.netns import links
from proctor.environments.netns.namespace import NetworkNamespace

LIBRARY = "libnftables.so.1"


def load_problem() -> str:
    """Why the library cannot be used; empty when it can."""
    try:
        _library()
    except OSError:
        return f"{LIBRARY} is missing: apt-get install nftables (Debian, Ubuntu)"
    return ""


def apply_now(rules: str) -> str:
    """Run commands in the namespace that this thread is in; what they print. Raises OSError with
    what the library says."""
    library = _library()
    context = library.nft_ctx_new(0)
    if not context:
        raise OSError("nftables cannot be spoken to")
    try:
        library.nft_ctx_buffer_error(context)
        library.nft_ctx_buffer_output(context)
        if library.nft_run_cmd_from_buffer(context, rules.encode()) != 0:
            said = library.nft_ctx_get_error_buffer(context) or b""
            raise OSError(f"nftables: {said.decode('utf-8', 'replace').strip()[:300]}")
        printed: bytes = library.nft_ctx_get_output_buffer(context) or b""
        return printed.decode("utf-8", "replace")
    finally:
        library.nft_ctx_free(context)


async def changed(
    namespace: NetworkNamespace | None, rules: str, *, first: bool = False, ipv6: bool = False
) -> str:
    """Run commands in a namespace (None: the host's); `first`: set up its loopback before. What
    they print. Raises OSError.

    Changes are made in the order they were asked for, also when a caller does not wait any more.
    """
    borrowed = namespace.borrowed() if namespace is not None else None

    def change() -> str:
        if borrowed is None:
            return apply_now(rules)
        try:
            with borrowed.entered():
                if first:
                    links.set_up(ipv6=ipv6)
                return apply_now(rules)
        finally:
            borrowed.close()

    done = asyncio.get_running_loop().run_in_executor(_changer(), change)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        done.add_done_callback(_looked_at)
        raise


def _looked_at(done: "asyncio.Future[str]") -> None:
    """Nobody waits for this change any more: its error is nobody's."""
    if not done.cancelled():
        done.exception()


@cache
def _changer() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="proctor-firewall")


@cache
def _library() -> Any:
    import ctypes

    library = ctypes.CDLL(LIBRARY)
    library.nft_ctx_new.restype = ctypes.c_void_p
    library.nft_ctx_new.argtypes = [ctypes.c_uint32]
    library.nft_ctx_free.argtypes = [ctypes.c_void_p]
    library.nft_ctx_buffer_error.argtypes = [ctypes.c_void_p]
    library.nft_run_cmd_from_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    library.nft_ctx_get_error_buffer.argtypes = [ctypes.c_void_p]
    library.nft_ctx_get_error_buffer.restype = ctypes.c_char_p
    library.nft_ctx_buffer_output.argtypes = [ctypes.c_void_p]
    library.nft_ctx_get_output_buffer.argtypes = [ctypes.c_void_p]
    library.nft_ctx_get_output_buffer.restype = ctypes.c_char_p
    return library
