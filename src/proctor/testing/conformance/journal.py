"""What every journal has to do, as tests: subclass `JournalConformance` and say how to open one.

    class TestMine(JournalConformance):
        def open(self, clock, access=Access.OWN, upgrades=AS_WRITTEN): ...

Each test gets a journal of its own from the fixture `place`, which a subclass makes empty.
"""

from proctor.testing.conformance.journal_append import AppendCases
from proctor.testing.conformance.journal_inbox import InboxCases
from proctor.testing.conformance.journal_leases import LeaseCases
from proctor.testing.conformance.journal_reading import ReadingCases
from proctor.testing.conformance.journal_rows import RowCases


class JournalConformance(AppendCases, RowCases, LeaseCases, InboxCases, ReadingCases):
    """All cases."""
