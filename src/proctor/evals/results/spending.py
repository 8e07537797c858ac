"""`budget.jsonl`: every reservation before it is used, and what it cost.

A reservation without a settlement belongs to a call that was cut off: it counts as spent whole.
"""

import os
from decimal import Decimal
from typing import Any

from proctor.kernel.budget import ZERO, Amount
from proctor.store.files import AppendFile, read_json_lines


def spending_path(run_dir: str) -> str:
    """Where a run's spending is kept."""
    return os.path.join(run_dir, "budget.jsonl")


class SpendingFile:
    """Appends spending; one line a reservation and one a settlement."""

    def __init__(self, run_dir: str) -> None:
        self._path = spending_path(run_dir)
        self._file: AppendFile | None = None

    def reserved(self, number: int, amount: Amount) -> None:
        """Record a reservation before the call is made. Raises StorageError."""
        self._append({"reserved": number, **_json(amount)})

    def settled(self, number: int, reserved: Amount, actual: Amount) -> None:
        """Record what a reservation cost, and by how much it was exceeded. Raises StorageError."""
        over = Amount(max(actual.usd - reserved.usd, ZERO), max(actual.tokens - reserved.tokens, 0))
        line = {"settled": number, **_json(actual)}
        self._append({**line, "over": _json(over)} if over != Amount() else line)

    def _append(self, line: dict[str, Any]) -> None:
        if self._file is None:  # made on use; the budget's lock lets one in at a time
            self._file = AppendFile(self._path, "budget")
        self._file.append(line)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None:
            self._file.close()


def _json(amount: Amount) -> dict[str, Any]:
    return {"usd": format(amount.usd, "f"), "tokens": amount.tokens}


def read_spending(run_dir: str) -> tuple[Amount, int]:
    """What a run has spent so far, and the first reservation number that is free."""
    open_: dict[int, Amount] = {}
    spent = Amount()
    last = 0
    for line in read_json_lines(spending_path(run_dir)):
        amount = Amount(Decimal(line["usd"]), int(line["tokens"]))
        if "reserved" in line:
            last = max(last, int(line["reserved"]))
            open_[int(line["reserved"])] = amount
        else:
            open_.pop(int(line["settled"]), None)
            spent += amount
    for amount in open_.values():
        spent += amount
    return spent, last + 1


def siblings(run_dir: str) -> list[str]:
    """The other run directories of the launch that a run belongs to; none for a single run."""
    place = os.path.abspath(run_dir)
    run_id, folder = os.path.basename(place), os.path.dirname(os.path.dirname(place))
    if not os.path.isfile(os.path.join(folder, f"{run_id}.json")):
        return []
    found = [os.path.join(entry.path, run_id) for entry in os.scandir(folder) if entry.is_dir()]
    return [other for other in found if other != place and os.path.isdir(other)]
