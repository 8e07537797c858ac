#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
cat > intervals.py <<'PROGRAM'
"""Half-open intervals [start, end) of whole numbers, as lists of two numbers."""


def merge(intervals):
    """The same times as disjoint intervals, sorted; touching intervals are joined and empty
    ones (end <= start) left out. The argument stays unchanged."""
    merged = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def gaps(intervals, window):
    """The free times inside the interval `window`, sorted, as intervals."""
    at, stop = window
    free = []
    for start, end in merge(intervals):
        if start >= stop:
            break
        if start > at:
            free.append([at, start])
        at = max(at, end)
    if at < stop:
        free.append([at, stop])
    return free


def total(intervals):
    """How much time the intervals cover; a time in several of them counts once."""
    return sum(end - start for start, end in merge(intervals))
PROGRAM
