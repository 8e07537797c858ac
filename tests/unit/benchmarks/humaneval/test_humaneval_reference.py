"""The real data set: every reference solution passes, an empty answer never does."""

import pytest

from proctor.benchmarks.humaneval import HumanEval


@pytest.mark.slow
def test_all_reference_solutions_pass(new_grader, human_eval):
    grader = new_grader(time_limit_s=5)
    tasks = HumanEval(data=human_eval).load_tasks()
    found = grader.pairs([(t.data, t.reference.answer) for t in tasks], at_once=4)
    assert {t.id: e.evidence for t, e in zip(tasks, found, strict=True)
            if e.metrics.get("passed") != 1} == {}  # fmt: skip
    assert len(found) == 164


@pytest.mark.slow
def test_whole_functions_in_a_code_block_pass_too(new_grader, human_eval):
    grader = new_grader(time_limit_s=5)
    tasks = HumanEval(data=human_eval).load_tasks()[::8]
    blocks = [f"Sure!\n```python\n{t.data.prompt}{t.reference.answer}```\n" for t in tasks]
    found = grader.pairs(zip([t.data for t in tasks], blocks, strict=True), at_once=4)
    assert [e.metrics.get("passed") for e in found] == [1] * len(tasks)


def test_empty_answers_are_a_valid_zero_without_running_anything(grader, human_eval):
    tasks = HumanEval(data=human_eval).load_tasks()
    found = grader.pairs([(t.data, "") for t in tasks])
    assert [e.metrics for e in found] == [{"passed": 0}] * 164
    assert {i.code for e in found for i in e.issues} == {"unparsed_answer"}


@pytest.mark.slow
def test_another_tasks_solution_does_not_pass(grader, human_eval):
    tasks = HumanEval(data=human_eval).load_tasks()[:12]
    shifted = [*tasks[1:], tasks[0]]
    found = grader.pairs(
        [(t.data, o.data.prompt + o.reference.answer) for t, o in zip(tasks, shifted, strict=True)]
    )
    assert [e.metrics.get("passed") for e in found] == [0] * len(tasks)
