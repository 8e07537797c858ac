import configparser
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from grader import Wrong, expect, main, read

WANTED = {
    "server": {"host": "10.0.4.17", "port": "8443", "workers": "8"},
    "limits": {"timeout": "150", "max_body": "12582912", "keepalive": "15"},
    "paths": {"root": "/srv/app/www/current", "log": "/var/log/app.log", "tmp": "/srv/app/tmp"},
    "features": {"gzip": "on", "http2": "on", "cache": "off"},
}
COMMENTS = [
    "# Main server. Ask operations before changing the host.",
    "# two and a half minutes",
]


def check(workspace):
    text = read(f"{workspace}/server.ini")
    parser = configparser.RawConfigParser(
        strict=True, delimiters=("=",), comment_prefixes=("#",), default_section="\0"
    )
    parser.optionxform = str
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise Wrong(f"server.ini: {error}") from None
    expect("sections", sorted(parser.sections()), sorted(WANTED))
    for section, wanted in WANTED.items():
        expect(f"[{section}]", dict(parser[section]), wanted)
    lines = [line.strip() for line in text.splitlines()]
    for comment in COMMENTS:
        if comment not in lines:
            raise Wrong(f"the comment {comment!r} is gone")


main(check)
