"""Benchmark `gsm8k`: grade-school word problems with one number as the answer.

Data: JSONL rows `{"question", "answer"}`, the answer ending in `#### NUMBER` (Cobbe et al. 2021,
"Training Verifiers to Solve Math Word Problems"). Task ids are the physical line numbers.
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from proctor.benchmarks.one_call import ask_once
from proctor.benchmarks.table.identity import Ids
from proctor.benchmarks.table.options import TableOptions
from proctor.benchmarks.table.problems import Problems
from proctor.benchmarks.table.reading import Row, json_rows
from proctor.benchmarks.table.scorers.contract import EMPTY
from proctor.benchmarks.table.scorers.numeric import Numeric, Unreadable, last_number, shown
from proctor.benchmarks.table.source import find_source
from proctor.environments.contract import EnvironmentSession
from proctor.evals.contracts.benchmark import HarnessFreeBenchmark
from proctor.evals.contracts.harness import AttemptContext
from proctor.evals.contracts.result import Evaluation, RunResult
from proctor.evals.contracts.task import PreparedTask, Reference, TaskSpec
from proctor.evals.metrics.contract import MetricContract, MetricSpec
from proctor.kernel.errors import DataError

INSTRUCTION = (
    "Solve the problem step by step. "
    "Write the final answer, a number alone, on the last line after '#### '."
)


class Gsm8kOptions(BaseModel):
    """Options of `gsm8k`. `instruction`: what follows the question; empty for the bare question."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instruction: str = INSTRUCTION


class Gsm8k(HarnessFreeBenchmark):
    """Grade-school maths: the last number of the answer is compared with the reference.

    Metric `correct`. Graded as scorer `numeric` of `table` does, without tolerance. With harness
    `none`, one model call per attempt.
    """

    id = "gsm8k"
    Options = Gsm8kOptions
    evaluation_modes = ("none", "reuse")

    def __init__(self, options: Gsm8kOptions | None = None, data: Path | None = None) -> None:
        super().__init__(options or Gsm8kOptions(), data)
        self.options: Gsm8kOptions
        self._scorer = Numeric(TableOptions(scorer="numeric"))

    def load_tasks(self) -> list[TaskSpec]:
        """One task a row, in file order. Raises DataError listing every problem."""
        file = find_source(self.data, self.id, ("jsonl",))
        problems = Problems(file)
        ids = Ids(problems)
        tasks = []
        for row in json_rows(file, problems):
            task_id = ids.take(row.line, "id" in row.values, row.values.get("id"))
            task = self._task(row, task_id or "", problems)
            if task is not None:
                tasks.append(task)
        ids.finish()
        problems.check(hint='rows are {"question": …, "answer": "… #### NUMBER"}')
        if not tasks:
            raise DataError(f"{file} has no rows", hint="give the data set's JSONL file")
        return tasks

    def metrics(self) -> MetricContract:
        """`correct`: 1 when the numbers are equal."""
        return MetricContract((MetricSpec("correct"),), "correct")

    def grading_settings(self) -> dict[str, Any]:
        """How the number is compared."""
        return self._scorer.settings()

    async def run_task(
        self, prepared: PreparedTask, session: EnvironmentSession, context: AttemptContext
    ) -> RunResult:
        """Ask the model once."""
        return await ask_once(prepared, context)

    async def evaluate(
        self, prepared: PreparedTask, result: RunResult, session: EnvironmentSession | None
    ) -> Evaluation:
        """Compare the last numbers."""
        answer = result.final_answer
        if answer is None:
            return Evaluation(unavailable={"correct": "there is no answer"})
        blank = isinstance(answer, str) and not answer.strip()
        verdict = EMPTY if blank else await self._scorer.score(answer, prepared.task)
        return Evaluation(
            metrics={"correct": verdict.value}, evidence=verdict.evidence, issues=verdict.issues
        )

    def _task(self, row: Row, task_id: str, problems: Problems) -> TaskSpec | None:
        question, answer = row.values.get("question"), row.values.get("answer")
        if not isinstance(question, str) or not question.strip():
            problems.add(row.line, "no text under 'question'")
            return None
        if not isinstance(answer, str):
            problems.add(row.line, "no text under 'answer'")
            return None
        try:
            number = shown(last_number(answer.rpartition("####")[2]))
        except Unreadable as error:
            problems.add(row.line, f"'answer' does not end in a number: {error}")
            return None
        text = question
        if self.options.instruction:
            text = f"{question}\n\n{self.options.instruction}"
        return TaskSpec(id=task_id, input=text, target=number, reference=Reference(answer=number))
