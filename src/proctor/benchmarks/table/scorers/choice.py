"""`choice`: the answer names one of the lettered choices.

The first of these rules that finds letters decides; letters outside `choices` are not seen:

1. the whole answer is one letter, bare or dressed: `B`, `b`, `(B)`, `B.`, `**B**`;
2. a statement: `answer`, `choice` or `option`, then `is`, `:` or `=` or nothing, then the letter
   (`The answer is (B)`, `Final answer: B`, `option B`), or `\\boxed{B}`; of several statements the
   last one counts. A lower-case letter counts here only in brackets or at the end of a line;
3. letters in brackets, `(B)` or `[B]`;
4. lines that begin with a letter and `)`, `.` or `:`, as choices are printed;
5. capital letters that stand alone, except `A` and `I`, which are also words.

Rules 3 to 5 decide only when all letters found are the same one. Different letters, or a
statement that names two (`B or C`), are ambiguous: the answer is unparsed.
"""

import re
from string import ascii_uppercase

from proctor.benchmarks.table.options import TableOptions
from proctor.benchmarks.table.scorers.contract import Scorer, Verdict, text_of, unparsed
from proctor.evals.contracts.task import TaskSpec
from proctor.kernel.errors import OptionError
from proctor.kernel.jsontext import JsonValue

SEARCHED_CHARS = 50_000
"""Only the end of a longer answer is searched."""

_DRESS = " \t\r\n*_`\"'.,:;!()[]{}$"
_STATEMENT = re.compile(
    r"""
    \\boxed\{ \s{0,5} (?:\\text\{)? \s{0,5} (?P<boxed>[A-Za-z]) \s{0,5} \}
    | \b (?i:answer|choice|option) (?!s\b)
      [\s*_`"'#]{0,10} (?: (?i:is|:|=) [\s*_`"':#]{0,10} ){0,2}
      (?i:option|choice)? \s{0,3} [*_`"']{0,3}
      (?: [(\[] [*_]{0,2} (?P<bracketed>[A-Za-z]) [*_]{0,2} [)\]]
        | (?P<capital>[A-Z]) (?![A-Za-z0-9'\u2019])
        | (?P<small>[a-z]) (?= [*_`"')\].,:;!\s]{0,5} (?:$|\n) ) )
      (?P<second> [*_`"')\]]{0,3} \s{0,3} (?: (?i:\bor\b|\band\b) | [/&,|] )
        \s{0,3} (?: (?i:option|choice) \s{1,3} )? [(\[*_]{0,3}
        (?: [B-HJ-Z] | [AI] (?!\s{1,3}[a-z]) ) (?![A-Za-z0-9'\u2019]) )?
    """,
    re.VERBOSE,
)
_BRACKETED = re.compile(r"[(\[]([A-Z])[)\]]")
_LISTED = re.compile(r"^[ \t*_#>-]{0,8}([A-Z])[*_]{0,2}[).:](?=\s|$)", re.MULTILINE)
_ALONE = re.compile(r"(?<![A-Za-z0-9_'\u2019.-])([B-HJ-Z])(?![A-Za-z0-9_'\u2019+#-]|\.[A-Za-z])")


def chosen(text: str, letters: frozenset[str]) -> tuple[str | None, str]:
    """(the letter that `text` chooses, the reason when there is none)."""
    text = text[-SEARCHED_CHARS:]
    bare = text.strip(_DRESS)
    if len(bare) == 1 and bare.upper() in letters:
        return bare.upper(), ""
    stated = _stated(text, letters)
    if stated is not None:
        return stated
    for pattern in (_BRACKETED, _LISTED, _ALONE):
        found = {letter for letter in pattern.findall(text) if letter in letters}
        if len(found) == 1:
            return found.pop(), ""
        if found:
            return None, f"ambiguous: it names {', '.join(sorted(found))}"
    return None, "it names no choice"


def _stated(text: str, letters: frozenset[str]) -> tuple[str | None, str] | None:
    last: tuple[str | None, str] | None = None
    for match in _STATEMENT.finditer(text):
        letter = next(m for n in ("boxed", "bracketed", "capital", "small") if (m := match[n]))
        if letter.upper() not in letters or _is_pronoun(letter, text, match.end()):
            continue
        if match["second"]:
            last = None, f"ambiguous: it says {match[0][-40:]!r}"
        else:
            last = letter.upper(), ""
    return last


def _is_pronoun(letter: str, text: str, end: int) -> bool:
    """`I` before a word in lower case is the speaker."""
    return letter == "I" and re.match(r"\s{1,3}[a-z]", text[end : end + 5]) is not None


class Choice(Scorer):
    """The chosen letter is the target's letter."""

    id = "choice"
    own_options = ("choices",)

    def __init__(self, options: TableOptions, argument: str = "") -> None:
        super().__init__(options, argument)
        letters = options.choices.upper().replace(",", "").replace(" ", "") or ascii_uppercase
        if strange := sorted(set(letters) - set(ascii_uppercase)):
            raise OptionError(
                f"benchmark.choices: {''.join(strange)!r} is no letter A to Z",
                hint="give the letters in a row, such as ABCD",
            )
        self._letters = frozenset(letters)

    def target_problem(self, target: JsonValue) -> str | None:
        """A target is one of the letters, bare or dressed as `(B)` or `B.`."""
        letter = _bare(target)
        if letter in self._letters:
            return None
        known = "".join(sorted(self._letters))
        return f"the target must be one letter of {known}, found {text_of(target)[:40]!r}"

    async def score(self, answer: JsonValue, task: TaskSpec) -> Verdict:
        """1 when the answer chooses the target's letter."""
        if not isinstance(answer, str):
            return unparsed("the answer is not text")
        letter, reason = chosen(answer, self._letters)
        if letter is None:
            return unparsed(f"no choice in the answer: {reason}")
        return Verdict(int(letter == _bare(task.target)), evidence={"answer": letter})


def _bare(target: JsonValue) -> str:
    return text_of(target).strip(_DRESS).upper()
