"""Garbage collection while attempts run.

A full collection walks everything that is alive, whatever thread it happens in, and holds the
event loop up meanwhile: a tenth of a second where hundreds of thousands of tasks are loaded. What
is loaded stays, and what an attempt leaves in a cycle is found by the younger collections.

Python knows frozen objects and others, not who froze them. A program that runs us and froze its
own keeps them frozen, because nothing is frozen or thawed then; full collections are rare still.
"""

import gc
import threading

FULL_AFTER = 100
"""Collections of the middle generation before a full one; Python's default is 10."""


class Collecting:
    """The collector as long as any launch of this process runs; back as it was afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # launches run in several threads and event loops
        self._launches = 0
        self._before = self._ours = gc.get_threshold()
        self._freezes = False

    def begin(self) -> None:
        """A launch begins: what there is now stays."""
        with self._lock:
            if not self._launches:
                self._before = gc.get_threshold()
                self._freezes = not gc.get_freeze_count()
                self._ours = (*self._before[:2], FULL_AFTER)
                gc.set_threshold(*self._ours)
            self._launches += 1
        self.keep()

    def keep(self) -> None:
        """What there is now stays until the last launch ends."""
        with self._lock:
            if self._launches and self._freezes:
                gc.freeze()

    def end(self) -> None:
        """A launch has ended."""
        with self._lock:
            self._launches -= 1
            if not self._launches:
                if gc.get_threshold() == self._ours:  # nobody has set it meanwhile
                    gc.set_threshold(*self._before)
                if self._freezes:
                    gc.unfreeze()


collecting = Collecting()
