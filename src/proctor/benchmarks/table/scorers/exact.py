"""`exact`: the answer is the target, outer blanks aside."""

from proctor.benchmarks.table.scorers.contract import RIGHT, WRONG, Scorer, Verdict, text_of
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel.jsontext import JsonValue


class Exact(Scorer):
    """Equal after stripping outer blanks; with `ignore_case` after Unicode case folding."""

    id = "exact"
    own_options = ("ignore_case",)

    async def score(self, answer: JsonValue, task: TaskSpec) -> Verdict:
        """1 when both texts are equal."""
        given, wanted = text_of(answer).strip(), text_of(task.target).strip()
        if self.options.ignore_case:
            given, wanted = given.casefold(), wanted.casefold()
        return RIGHT if given == wanted else WRONG
