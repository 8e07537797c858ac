"""`.env`: variables for this process, one `NAME=VALUE` a line. The place for secrets."""

import os
import re
from pathlib import Path

from proctor.cli.output import say
from proctor.kernel.errors import OptionError

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*", re.S)
_QUOTED = re.compile(r"(['\"])(.*?)\1(?:\s+#.*)?", re.S)
_COMMENT = re.compile(r"\s+#.*", re.S)


def load_dotenv(path: str = ".env") -> None:
    """Add the variables of a `.env` file that are not set already.

    Blanks around name and value, a leading `export`, quotes around the value, and comments after a
    blank and `#` are dropped; nothing is expanded. A line that is none of this is told and passed
    over. A file that cannot be read is refused (OptionError): a secret may be missing.
    """
    file = Path(path)
    if not file.is_file():  # a virtual environment may have this name
        return
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise OptionError(f"cannot read {path}: {error.strerror}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or "\0" in line:
            say(f"{path}, line {number}: not NAME=VALUE, passed over", error=True)
        else:
            os.environ.setdefault(match[1], _value(match[2]))


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    return quoted[2] if quoted is not None else _COMMENT.sub("", text)
