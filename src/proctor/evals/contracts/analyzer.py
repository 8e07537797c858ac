"""Analyzers look at finished attempts; they never change a score."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from proctor.evals.contracts.task import PreparedTask


class Analyzer(ABC):
    """Adds to `analysis_result` of an attempt; its failure is a warning."""

    id: ClassVar[str]
    version: ClassVar[str] = "1"
    Options: ClassVar[type[Any] | None] = None

    def __init__(self, options: Any = None) -> None:
        self.options = options

    def applies(self, benchmark_id: str) -> bool:
        """Whether this analyzer has something to say about that benchmark."""
        return True

    @abstractmethod
    def analyse(self, task: PreparedTask, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Findings about one attempt record, as JSON. Runs off the event loop with a limit."""
