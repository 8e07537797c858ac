"""Which of the driver's environment variables a command may see: a short list, nothing else."""

import os
from collections.abc import Mapping

SESSION_MARK = "PROCTOR_SESSION"
"""The variable that tells the processes of a session: its value is the name of its root."""

_ALLOWED = ("LANG", "TZ")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def base_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """PATH, LANG, LC_*, TZ as the driver has them, and TERM=dumb.

    Relative entries of PATH are left out: they would let an agent's folder stand in for commands.
    """
    source = os.environ if environ is None else environ
    path = [part for part in source.get("PATH", _DEFAULT_PATH).split(":") if part.startswith("/")]
    found = {"PATH": ":".join(path) or _DEFAULT_PATH, "TERM": "dumb"}
    for name in source:
        if name in _ALLOWED or name.startswith("LC_"):
            found[name] = source[name]
    return found
