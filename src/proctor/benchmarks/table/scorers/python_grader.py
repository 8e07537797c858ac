"""The program that runs a user's scorer function once, in a process of its own.

Run alone (`python -I python_grader.py`). The request is JSON on stdin; the verdict is one line of
JSON on the standard output that the process was started with. Before any code of the user is
loaded, that output moves to a descriptor which child processes do not inherit, and file
descriptor 1 becomes stderr: whatever the function or what it calls prints cannot be a verdict.
The line carries the request's nonce, and only the process that was started may write it.
"""

import json
import math
import os
import sys
import traceback
import types
from pathlib import Path
from typing import Any

SHOWN_CHARS = 200
TRACEBACK_CHARS = 8_000


def main() -> None:
    """Grade once and leave without running any clean-up that the user's code has installed."""
    request = json.loads(sys.stdin.buffer.read())
    verdict_fd = os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    pid = os.getpid()
    reply = _graded(request)
    if os.getpid() == pid:
        line = json.dumps({"nonce": request["nonce"], **reply}, allow_nan=False) + "\n"
        rest = line.encode("utf-8", "backslashreplace")
        while rest:
            rest = rest[os.write(verdict_fd, rest) :]
    os._exit(0)


def _graded(request: dict[str, Any]) -> dict[str, Any]:
    try:
        function = _function(request["path"], request["function"], request["source"])
        result = function(request["answer"], request["target"], request["task"])
        return _described(result)
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the driver is told
        frames = traceback.format_exception(error)
        return {
            "error": f"{type(error).__name__}: {error}"[:1_000],
            "traceback": "".join(frames)[-TRACEBACK_CHARS:],
        }


def _function(path: str, name: str, source: str) -> Any:
    """The function, from the source text that the driver has read and digested."""
    sys.path.insert(0, str(Path(path).parent))
    module = types.ModuleType(Path(path).stem)
    module.__file__ = path
    sys.modules[module.__name__] = module
    code = compile(source, path, "exec")
    exec(code, module.__dict__)  # noqa: S102 - what this program is for
    function = getattr(module, name, None)
    if not callable(function):
        raise TypeError(f"{path} has no function {name!r}")
    return function


def _described(result: Any) -> dict[str, Any]:
    evidence: dict[str, Any] = {}
    if isinstance(result, dict):
        if "score" not in result:
            return {"type": "dict", "shown": "a dict without the key 'score'"}
        evidence = {str(key): value for key, value in result.items() if key != "score"}
        result = result["score"]
    if not isinstance(result, bool | int | float) and hasattr(result, "item"):
        result = result.item()  # NumPy's scalars
    out: dict[str, Any] = {"type": type(result).__name__, "shown": repr(result)[:SHOWN_CHARS]}
    if isinstance(result, bool | int | float) and math.isfinite(result) and abs(result) < 2**63:
        out["value"] = result
    if evidence:
        out["evidence"] = _plain(evidence)
    return out


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return {"unstorable": repr(value)[:SHOWN_CHARS]}


if __name__ == "__main__":
    main()
