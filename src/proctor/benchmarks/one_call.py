"""Harness `none`: the benchmark asks the model once per attempt."""

from proctor.evals.contracts.harness import AttemptContext
from proctor.evals.contracts.result import RunResult
from proctor.evals.contracts.task import PreparedTask
from proctor.kernel import jsontext
from proctor.kernel.errors import BenchmarkFault


async def ask_once(prepared: PreparedTask, context: AttemptContext) -> RunResult:
    """One user message with the task's input; the reply's text is the final answer.

    Raises BenchmarkFault without a model, and ModelFault from the model.
    """
    if context.model is None:
        raise BenchmarkFault(
            "harness 'none' asks a model, and the request has none",
            code="no_model",
            permanent=True,
            hint="give --model",
        )
    content = prepared.input
    if not isinstance(content, str):
        content = jsontext.dumps(content)
    reply = await context.model.complete([{"role": "user", "content": content}])
    return RunResult(
        final_answer=reply.text,
        usage=reply.usage,
        telemetry={"finish_reason": reply.finish_reason},
    )
