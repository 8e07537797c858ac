"""Harbor task folders: load them, run them, grade them with their own tests."""

from proctor.benchmarks.harbor.benchmark import Harbor
from proctor.benchmarks.harbor.dataset import load_dataset
from proctor.benchmarks.harbor.folder import load_folder
from proctor.benchmarks.harbor.hashing import content_hash

__all__ = ["Harbor", "content_hash", "load_dataset", "load_folder"]
