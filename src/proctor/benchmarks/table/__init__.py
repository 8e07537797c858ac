"""Benchmark `table`: your own JSONL or CSV file with a scorer."""

from proctor.benchmarks.table.benchmark import Table
from proctor.benchmarks.table.options import Columns, TableOptions

__all__ = ["Columns", "Table", "TableOptions"]
