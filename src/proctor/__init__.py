"""Evaluate AI agents with results that can be trusted.

    report = proctor.run(request)        run an evaluation; `arun` inside an event loop
    report = proctor.resume(run_dir)     run what is missing; `aresume` inside an event loop
    reports = proctor.launch(spec)       several requests through one pool; `resume_launch` goes on
    report = proctor.rescore(run_dir)    grade stored answers again, into a new run
    run = proctor.load(run_dir)          read the evidence

The other names are what the author of a benchmark, harness, environment or model writes against,
and the errors that proctor raises on purpose. Everything is imported on first use, so that
`import proctor` costs next to nothing.
"""

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` for it would cost more than the rest of this module
if TYPE_CHECKING:
    from proctor.environments.contract import Environment, EnvironmentSession
    from proctor.evals.api import (
        alaunch,
        arescore,
        aresume,
        aresume_launch,
        arun,
        launch,
        load,
        rescore,
        resume,
        resume_launch,
        run,
    )
    from proctor.evals.contracts import (
        AttemptContext,
        Benchmark,
        Evaluation,
        Harness,
        HarnessFreeBenchmark,
        HarnessSession,
        MetricContract,
        MetricSpec,
        PreparedTask,
        Reference,
        RunResult,
        TaskSpec,
    )
    from proctor.evals.prepare import Earlier
    from proctor.evals.report import RunReport
    from proctor.evals.stopping import Stop
    from proctor.kernel.errors import (
        AgentFault,
        BenchmarkFault,
        BrokenComponent,
        DataError,
        EnvironmentFault,
        EvaluatorFault,
        Fault,
        ModelFault,
        NothingSelected,
        OptionError,
        ProctorError,
        RunDirectoryError,
        RunIsLive,
        RuntimeFault,
        Stopped,
        StorageError,
        UnknownComponent,
        UsageError,
    )
    from proctor.models.contract import Model

__version__ = "0.1.0"

__all__ = [
    "AgentFault",
    "AttemptContext",
    "Benchmark",
    "BenchmarkFault",
    "BrokenComponent",
    "DataError",
    "Earlier",
    "Environment",
    "EnvironmentFault",
    "EnvironmentSession",
    "Evaluation",
    "EvaluatorFault",
    "Fault",
    "Harness",
    "HarnessFreeBenchmark",
    "HarnessSession",
    "MetricContract",
    "MetricSpec",
    "Model",
    "ModelFault",
    "NothingSelected",
    "OptionError",
    "PreparedTask",
    "ProctorError",
    "Reference",
    "RunDirectoryError",
    "RunIsLive",
    "RunReport",
    "RunResult",
    "RuntimeFault",
    "Stop",
    "Stopped",
    "StorageError",
    "TaskSpec",
    "UnknownComponent",
    "UsageError",
    "alaunch",
    "arescore",
    "aresume",
    "aresume_launch",
    "arun",
    "launch",
    "load",
    "rescore",
    "resume",
    "resume_launch",
    "run",
]

_HOMES = {
    "proctor.environments.contract": ["Environment", "EnvironmentSession"],
    "proctor.evals.api": [
        "alaunch",
        "arescore",
        "aresume",
        "aresume_launch",
        "arun",
        "launch",
        "load",
        "rescore",
        "resume",
        "resume_launch",
        "run",
    ],
    "proctor.evals.prepare": ["Earlier"],
    "proctor.evals.report": ["RunReport"],
    "proctor.evals.stopping": ["Stop"],
    "proctor.evals.contracts": [
        "AttemptContext",
        "Benchmark",
        "Evaluation",
        "Harness",
        "HarnessFreeBenchmark",
        "HarnessSession",
        "MetricContract",
        "MetricSpec",
        "PreparedTask",
        "Reference",
        "RunResult",
        "TaskSpec",
    ],
    "proctor.kernel.errors": [
        "AgentFault",
        "BenchmarkFault",
        "BrokenComponent",
        "DataError",
        "EnvironmentFault",
        "EvaluatorFault",
        "Fault",
        "ModelFault",
        "NothingSelected",
        "OptionError",
        "ProctorError",
        "RunDirectoryError",
        "RunIsLive",
        "RuntimeFault",
        "Stopped",
        "StorageError",
        "UnknownComponent",
        "UsageError",
    ],
    "proctor.models.contract": ["Model"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker is to see the names above, and that there are no others

    def __getattr__(name):
        try:
            home = _HOME_OF[name]
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        value = getattr(import_module(home), name)
        globals()[name] = value  # the next access does not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
