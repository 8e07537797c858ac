#!/bin/bash
set -eu
cat > /task/src/rotation.py <<'PROGRAM'
def rotate(items, steps):
    """The items moved `steps` places to the right."""
    at = -steps % len(items) if items else 0
    return items[at:] + items[:at]
PROGRAM
