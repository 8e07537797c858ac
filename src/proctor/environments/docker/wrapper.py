"""The shell around every command: it tells its process, how the command ended, and ends its group.

The API of an engine can start a command but not kill it, and its stream stays open for as long as
any process holds the command's pipes. So the shell, which leads a process group of its own, first
says its process id (for whoever has to kill the group), and after the command writes a line on
both streams (everything before it is the command's output) and kills the whole group, itself
included. A command that forges the line ends its own answer early; it gains nothing by that.
"""

import secrets
from collections.abc import Sequence

from proctor.environments.capture import BoundedCapture
from proctor.environments.contract import Resources
from proctor.environments.limits import ProcessLimits

_SCRIPT = """\
exec 3>&2 2>/dev/null
_proctor_oom() {
  _proctor_n=0
  for _proctor_f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    if [ -r "$_proctor_f" ]; then
      while read -r _proctor_k _proctor_v; do
        if [ "$_proctor_k" = oom_kill ]; then _proctor_n=$_proctor_v; fi
      done < "$_proctor_f"
    fi
  done
}
_proctor_oom
_proctor_before=$_proctor_n
printf '%s %s\\n' '@HELLO@' "$$" >&3
(
  exec 2>&3 3>&-
@LIMITS@
  cd -- "$1" || exit 127
  shift
  if [ "$1" = '@SCRIPT@' ]; then
    shift
    if [ -x /bin/bash ]; then set -- /bin/bash "$@"; else set -- /bin/sh "$@"; fi
  fi
  exec "$@"
)
_proctor_status=$?
@DRAIN@
_proctor_oom
if [ "$_proctor_n" = "$_proctor_before" ]; then _proctor_n=0; else _proctor_n=1; fi
printf '%s%s %s\\n' '@END@' "$_proctor_status" "$_proctor_n"
printf '%s%s %s\\n' '@END@' "$_proctor_status" "$_proctor_n" >&3
kill -9 "-$$"
"""
_LONGEST_REPORT = 64


class Wrapper:
    """One command's shell, with words that nobody else knows beforehand."""

    def __init__(self) -> None:
        nonce = secrets.token_hex(12)
        self.hello = f"proctor-started-{nonce}".encode()
        self.end = f"proctor-ended-{nonce} ".encode()
        self._script_word = f"proctor-script-{nonce}"

    def argv(
        self,
        argv: Sequence[str],
        cwd: str,
        resources: Resources | None,
        *,
        script: bool,
        has_input: bool,
    ) -> list[str]:
        """What the engine is asked to start. With `script`, `argv` are arguments of a shell.

        With input, what the command left of it is read: podman drops the output of a command
        whose input it cannot get rid of.
        """
        limits = ""
        if resources is not None and resources.memory_mb is not None:
            limits = ProcessLimits(memory_mb=max(1, int(resources.memory_mb))).commands()
        text = (
            _SCRIPT.replace("@HELLO@", self.hello.decode())
            .replace("@END@", self.end.decode())
            .replace("@SCRIPT@", self._script_word)
            .replace("@LIMITS@", limits)
            .replace("@DRAIN@", "cat > /dev/null" if has_input else "")
        )
        words = [self._script_word, *argv] if script else list(argv)
        return ["/bin/sh", "-c", text, "sh", cwd, *words]


class Output:
    """One stream of a command: its bytes up to the line that says how the command ended."""

    def __init__(self, limit_bytes: int, end: bytes, hello: bytes | None = None) -> None:
        self.capture = BoundedCapture(limit_bytes)
        self.report: bytes | None = None
        self.pid: int | None = None
        self._end = end
        self._hello = hello
        self._held = b""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self.report is not None:
            return
        data = self._held + chunk if self._held else chunk
        self._held = b""
        if self._hello is not None:
            data = self._greeted(data)
            if self._hello is not None:  # more of the first line has to come
                self._held = data
                return
        at = data.find(self._end)
        if at >= 0:
            self._take_report(data, at)
            return
        keep = len(self._end) - 1
        self.capture.feed(data[:-keep])
        self._held = data[-keep:]

    def finish(self) -> None:
        """The stream has ended."""
        if self.report is None:
            self.capture.feed(self._held)
            self._held = b""

    def _greeted(self, data: bytes) -> bytes:
        """`data` without the first line, which the shell wrote before the command was there; all
        of it while the line is not complete."""
        hello = self._hello or b""
        if not data.startswith(hello[: len(data)]):
            self._hello = None  # not our shell: what comes is an error of the engine
            return data
        line, newline, rest = data.partition(b"\n")
        if not newline:
            return data
        self._hello = None
        word = line[len(hello) :].strip()
        self.pid = int(word) if word.isdigit() else None
        return rest

    def _take_report(self, data: bytes, at: int) -> None:
        newline = data.find(b"\n", at)
        if newline < 0 and len(data) - at < len(self._end) + _LONGEST_REPORT:
            self.capture.feed(data[:at])
            self._held = data[at:]
            return
        self.capture.feed(data[:at])
        self.report = data[at + len(self._end) : newline] if newline >= 0 else b""


def parsed(report: bytes | None) -> tuple[int, bool] | None:
    """(exit code, whether memory ran out) of an ending line; None for anything else."""
    words = (report or b"").split()
    if len(words) != 2 or not words[0].isdigit() or len(words[0]) > 3:
        return None
    return int(words[0]), words[1] == b"1"
