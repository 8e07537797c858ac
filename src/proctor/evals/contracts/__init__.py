"""What a plug-in author writes against: tasks, results, Benchmark, Harness, Analyzer."""

from proctor.evals.contracts.analyzer import Analyzer
from proctor.evals.contracts.benchmark import Benchmark, HarnessFreeBenchmark, Selection
from proctor.evals.contracts.harness import AttemptContext, Harness, HarnessSession
from proctor.evals.contracts.plan import AttemptPlan
from proctor.evals.contracts.result import Artifact, Evaluation, RunResult
from proctor.evals.contracts.task import PreparedTask, Reference, TaskSpec
from proctor.evals.metrics.contract import Kind, MetricContract, MetricSpec

__all__ = [
    "Analyzer",
    "Artifact",
    "AttemptContext",
    "AttemptPlan",
    "Benchmark",
    "Evaluation",
    "Harness",
    "HarnessFreeBenchmark",
    "HarnessSession",
    "Kind",
    "MetricContract",
    "MetricSpec",
    "PreparedTask",
    "Reference",
    "RunResult",
    "Selection",
    "TaskSpec",
]
