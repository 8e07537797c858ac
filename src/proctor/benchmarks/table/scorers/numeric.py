"""`numeric`: the last number of the answer equals the last number of the target.

What a number is (ASCII digits):
- digits with optional thousands commas (`70,000`, groups of three) and decimals (`18.50`, `.5`);
  a dot that ends a sentence is no part of it (`18.` is 18);
- a sign directly before it or before its currency mark (`-5`, `-$5`, `$-5`), also U+2212, unless
  it follows a letter, digit or closing bracket: in `10-12` the last number is 12;
- an exponent of up to three digits (`1e3`);
- a fraction (`3/4` is 0.75); over 0 it cannot be read; of a longer chain (`12/25/2020`) the last
  part is the number;
- currency marks, `%` and units are not looked at: `50%` is 50, `18km` is 18;
- digits inside or after a word (`CO2`, `x1`) are not numbers.

Numbers are compared exactly, as fractions, never as floating point. A number of more than 1,000
digits cannot be read. Only the last 200,000 characters of an answer are searched.
"""

import re
from fractions import Fraction

from proctor.benchmarks.table.scorers.contract import Scorer, Verdict, text_of, unparsed
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel.jsontext import JsonValue

SEARCHED_CHARS = 200_000
MAX_DIGITS = 1_000

_NUMBER = re.compile(
    r"""
    (?: (?<![\w)\]]) (?P<sign>[-+\u2212]) [$\u20ac\u00a3]? | [$\u20ac\u00a3] (?P<inner>[-\u2212]) )?
    (?<![A-Za-z0-9_]) (?<![0-9]\.)
    (?: (?P<whole> [0-9]{1,3} (?:,[0-9]{3})+ (?![0-9]) | [0-9]+ ) (?P<decimals> \.[0-9]+ )?
      | (?<![\w.]) (?P<only> \.[0-9]+ ) )
    (?: [eE] (?P<exponent> [-+]?[0-9]{1,3} ) (?![0-9A-Za-z]) )?
    (?: (?P<chain> (?:/[0-9]+)+ ) (?![0-9]|\.[0-9]) )?
    """,
    re.VERBOSE,
)
_FIRST_LOOK = 2_000


class Unreadable(ValueError):
    """The last number of a text cannot be read; the reason is the message."""


def last_number(text: str) -> Fraction:
    """The last number of `text`. Raises Unreadable."""
    # Most texts end with their number: a short look at the end is enough. A number that begins
    # at the cut may have lost its head, so it does not count there.
    if len(text) > _FIRST_LOOK:
        tail = text[-_FIRST_LOOK:]
        last = _last_match(tail)
        if last is not None and last.start() > _FIRST_LOOK // 2:
            return _value(last)
    last = _last_match(text[-SEARCHED_CHARS:])
    if last is None:
        raise Unreadable("there is no number in it")
    return _value(last)


def _last_match(text: str) -> re.Match[str] | None:
    last = None
    for last in _NUMBER.finditer(text):  # noqa: B007 - only the last one counts
        pass
    return last


def _value(match: re.Match[str]) -> Fraction:
    whole = (match["whole"] or "").replace(",", "")
    decimals = (match["decimals"] or match["only"] or ".")[1:]
    first, *rest = (match["chain"] or "")[1:].split("/")
    if len(whole) + len(decimals) + max(map(len, [first, *rest])) > MAX_DIGITS:
        raise Unreadable(f"its last number has more than {MAX_DIGITS} digits")
    if rest:
        return Fraction(int(rest[-1]))
    number = Fraction(int((whole + decimals) or "0"), 10 ** len(decimals))
    if match["exponent"]:
        number *= Fraction(10) ** int(match["exponent"])
    if first:
        if int(first) == 0:
            raise Unreadable("its last number is a fraction over 0")
        number /= int(first)
    negative = (match["sign"] or match["inner"]) in ("-", "\u2212")
    return -number if negative else number


def shown(number: Fraction) -> str:
    """A number for evidence: exact when it is short, else cut."""
    text = str(number.numerator) if number.denominator == 1 else format_decimal(number)
    return text if len(text) <= 60 else text[:57] + "…"


def format_decimal(number: Fraction) -> str:
    """`number` as a decimal when it has one of at most 20 places, else as a fraction."""
    for places in range(1, 21):
        scaled = number * 10**places
        if scaled.denominator == 1:
            digits = str(abs(scaled.numerator)).rjust(places + 1, "0")
            sign = "-" if number < 0 else ""
            return f"{sign}{digits[:-places]}.{digits[-places:]}"
    return f"{number.numerator}/{number.denominator}"


class Numeric(Scorer):
    """Last number against last number, within `tolerance` or `relative_tolerance`."""

    id = "numeric"
    own_options = ("tolerance", "relative_tolerance")

    def target_problem(self, target: JsonValue) -> str | None:
        """A target without a number can never be met."""
        try:
            last_number(text_of(target))
        except Unreadable as error:
            return f"the target is not numeric: {error}"
        return None

    async def score(self, answer: JsonValue, task: TaskSpec) -> Verdict:
        """1 when the numbers agree. An answer without a number is unparsed."""
        if not isinstance(answer, str | int | float) or isinstance(answer, bool):
            return unparsed("the answer is not text or a number")
        try:
            given = last_number(text_of(answer))
        except Unreadable as error:
            return unparsed(f"no number in the answer: {error}")
        wanted = last_number(text_of(task.target))
        right = given == wanted or abs(given - wanted) <= self._allowed(wanted)
        return Verdict(int(right), evidence={"answer": shown(given), "target": shown(wanted)})

    def _allowed(self, wanted: Fraction) -> Fraction:
        options = self.options
        return max(Fraction(options.tolerance), Fraction(options.relative_tolerance) * abs(wanted))
