"""`includes`: the target occurs in the answer."""

from proctor.benchmarks.table.scorers.contract import RIGHT, WRONG, Scorer, Verdict, text_of
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel.jsontext import JsonValue


class Includes(Scorer):
    """The target, without its outer blanks, is a part of the answer."""

    id = "includes"
    own_options = ("ignore_case",)

    async def score(self, answer: JsonValue, task: TaskSpec) -> Verdict:
        """1 when the target is found anywhere in the answer."""
        given, wanted = text_of(answer), text_of(task.target).strip()
        if self.options.ignore_case:
            given, wanted = given.casefold(), wanted.casefold()
        return RIGHT if wanted in given else WRONG
