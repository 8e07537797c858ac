"""The program of the regex worker: searches texts for patterns, one request at a time.

Run alone (`python -I -S regex_search.py MEMORY_BYTES`). Each request is one line of JSON on
stdin, `[pattern, ignore case, text, seconds]`; each reply one line on stdout: true, false or an
error text. It ends at the end of its input. The alarm is a second line of defence: it ends the
process even when the driver, which keeps the time, is dead.
"""

import json
import re
import resource
import signal
import sys


def main() -> None:
    """Serve until the input ends."""
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies = sys.stdout
    for line in sys.stdin.buffer:
        pattern, ignore_case, text, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, seconds * 1.5 + 1)
        try:
            flags = re.IGNORECASE if ignore_case else 0
            reply: bool | str = re.search(pattern, text, flags) is not None
        except (re.error, RecursionError, OverflowError, MemoryError) as error:
            reply = f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
