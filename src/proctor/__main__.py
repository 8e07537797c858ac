"""`python -m proctor`, and what the console script calls."""

import os
import sys


def main() -> int | None:
    """Run the command line; the exit codes are in docs/results.md."""
    if sys.getfilesystemencoding().lower() != "utf-8" and not sys.flags.utf8_mode:
        _start_again_in_utf8_mode()
    from proctor.cli.app import main as run_cli

    return run_cli()


def _start_again_in_utf8_mode() -> None:
    """Names of files, arguments and variables are UTF-8 whatever the locale says; only what is
    printed stays in the terminal's encoding (see `proctor.cli.output.prepare_streams`)."""
    encoding = sys.stdout.encoding if sys.stdout is not None else "ascii"
    options = ["-X", "utf8=1", "-X", f"proctor_console={encoding}"]
    if sys.executable:
        os.execv(sys.executable, [sys.executable, *options, *sys.orig_argv[1:]])  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
