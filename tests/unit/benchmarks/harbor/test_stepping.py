"""The reward of a task of several steps, and whether the agent goes on."""

import pytest

from proctor.benchmarks.harbor.jobs import StepJob, VerifierJob
from proctor.benchmarks.harbor.reward import NoReward, Reward
from proctor.benchmarks.harbor.stepping import goes_on, noted, total

JOB = VerifierJob((), {}, 1.0, None)


def graded(*rewards):
    steps = []
    for number, found in enumerate(rewards):
        verdict = NoReward("reward_missing", "nothing") if found is None else Reward(found, "f")
        steps.append(noted(StepJob(f"s{number}", "do", JOB), verdict, {}))
    return steps


@pytest.mark.parametrize(
    ("rewards", "mean", "final"),
    [
        ([{"reward": 1.0}, {"reward": 0.5}], {"reward": 0.75}, {"reward": 0.5}),
        ([{"a": 1.0}, {"b": 1.0}], {"a": 0.5, "b": 0.5}, {"b": 1.0}),
        ([{"reward": 1.0}] * 49, {"reward": 1.0}, {"reward": 1.0}),
        ([{"reward": 1.7e308}] * 3, {"reward": 1.7e308}, {"reward": 1.7e308}),
    ],
)
def test_the_whole_is_the_mean_or_the_last(rewards, mean, final):
    assert total(graded(*rewards), final=False).rewards == pytest.approx(mean)
    assert total(graded(*rewards), final=True).rewards == final


def test_a_step_without_a_verdict_leaves_the_whole_without_one():
    done = graded({"reward": 1.0}, None, {"reward": 1.0})
    found = total(done, final=False)
    assert found == NoReward("reward_missing", "step s1: nothing")
    assert total(done, final=True).rewards == {"reward": 1.0}


@pytest.mark.parametrize(
    ("least", "rewards", "on"),
    [
        (None, {"reward": 0.0}, True),
        (None, None, True),
        ({"reward": 0.5}, {"reward": 0.5}, True),
        ({"reward": 0.5}, {"reward": 0.49}, False),
        ({"reward": 0.0}, {"other": 1.0}, False),
        ({"reward": -1.0}, None, False),
        ({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": -0.1}, False),
    ],
)
def test_below_the_least_reward_the_agent_does_not_go_on(least, rewards, on):
    step = StepJob("s", "do", JOB, min_reward=least)
    verdict = NoReward("x", "y") if rewards is None else Reward(rewards, "f")
    assert goes_on(step, verdict) is on
