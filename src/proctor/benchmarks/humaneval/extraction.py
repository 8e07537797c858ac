"""The code in an answer.

1. Of an answer with fenced code blocks (three backquotes), the first block that defines the
   function counts, else the first block; a block that is not closed ends with the answer.
2. Any other answer is code as it stands; its leading blanks are its indentation.
3. Code that defines the function at the start of a line is *whole*: it runs after the prompt has
   run by itself. Any other code is a *completion*: it is appended to the prompt as it is.

Only regular expressions that run in linear time look at an answer here; Python first sees it in
the candidate's process.
"""

import re
from dataclasses import dataclass

_FENCED = re.compile(r"^[ \t]{0,8}```[^\n`]*\n(.*?)(?:^[ \t]{0,8}```|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Code:
    """What to run. `whole`: it defines the function itself."""

    text: str
    whole: bool


def extract(answer: str, entry_point: str) -> Code:
    """The code that `answer` gives for the function `entry_point`."""
    name = re.escape(entry_point)
    defines = re.compile(
        rf"^(?:(?:async[ \t]+)?def[ \t]+{name}[ \t]*\(|{name}[ \t]*=)", re.MULTILINE
    )
    blocks = [match[1] for match in _FENCED.finditer(answer)]
    text = answer
    if blocks:
        text = next((block for block in blocks if defines.search(block)), blocks[0])
    return Code(text, defines.search(text) is not None)
