"""`python -m proctor`, and what the console script calls."""

import sys


def main() -> int | None:
    """Run the command line; the exit codes are those of `proctor run` (see the README)."""
    from proctor.cli.app import main as run_cli

    return run_cli()


if __name__ == "__main__":
    sys.exit(main())
