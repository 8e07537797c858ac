"""Benchmark `humaneval`: write a Python function, judged by the data set's tests."""

from proctor.benchmarks.humaneval.benchmark import HumanEval, HumanEvalOptions

__all__ = ["HumanEval", "HumanEvalOptions"]
