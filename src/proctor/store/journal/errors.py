"""What can be wrong with a journal, beside the database failing (StorageError itself).

StorageError
├── UnknownRun         no run of this id
├── RunIsOver          a message to a run in a state that its sender excluded
├── MessageTooLong     a message that an inbox does not take; nothing was added
├── ConstraintBroken   an append that the tables refuse; nothing was changed
├── JournalReadOnly    a write on a journal that was opened for reading or control
├── JournalClosed      a call after `close`
├── JournalTooNew      the database was made by a newer proctor
├── UnreadableEvent    an event that this proctor cannot read
└── EngineMissing      the database's driver is not installed
"""

from proctor.kernel.errors import StorageError


class UnknownRun(StorageError):
    """There is no agent run of this id in the journal."""

    code = "unknown_agent_run"


class RunIsOver(StorageError):
    """The run is in a state in which nobody reads messages any more; nothing was added."""

    code = "agent_run_over"


class MessageTooLong(StorageError):
    """The message is longer than an inbox takes; nothing was added."""

    code = "message_too_long"


class ConstraintBroken(StorageError):
    """The journal's tables refuse this append; nothing was changed."""

    code = "journal_constraint"


class JournalReadOnly(StorageError):
    """This journal was not opened for writing."""

    code = "journal_read_only"


class JournalClosed(StorageError):
    """The journal is closed."""

    code = "journal_closed"


class JournalTooNew(StorageError):
    """The journal was made by a newer proctor: update this one."""

    code = "journal_too_new"


class UnreadableEvent(StorageError):
    """The journal holds an event that this proctor cannot read."""

    code = "unreadable_event"


class EngineMissing(StorageError):
    """The driver of this database is not installed."""

    code = "engine_missing"
