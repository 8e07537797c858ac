"""A benchmark: how many words has a sentence? Right or wrong, and how near.

proctor run --benchmark examples/benchmark_word_count.py:WordCount --harness oracle
"""

from proctor import Benchmark, Evaluation, MetricContract, MetricSpec, Reference, TaskSpec
from proctor.evals.contracts import Kind

SENTENCES = {
    "short": "Time flies.",
    "pangram": "The quick brown fox jumps over the lazy dog.",
    "hyphens": "A well-known, state-of-the-art method!",
}


class WordCount(Benchmark):
    """How many words has a sentence?"""

    id = "word-count"
    data_required = False

    def load_tasks(self):
        for name, text in SENTENCES.items():
            words = len(text.split())
            question = f"How many words are there between the quotes? Answer a number.\n'{text}'"
            yield TaskSpec(name, question, target=words, reference=Reference(answer=str(words)))

    def metrics(self):
        near = MetricSpec("nearness", Kind.SCALAR, low=0, high=1)
        return MetricContract((MetricSpec("correct"), near), primary="correct")

    def evaluate(self, prepared, result, session):
        if result.final_answer is None:
            return Evaluation(unavailable={"correct": "no answer", "nearness": "no answer"})
        text, words = str(result.final_answer).strip(), prepared.task.target
        given = int(text) if text.isdecimal() and len(text) < 10 else 0
        return Evaluation({"correct": given == words, "nearness": 1 / (1 + abs(given - words))})
