"""Half-open intervals [start, end) of whole numbers, as lists of two numbers."""


def merge(intervals):
    """The same times as disjoint intervals, sorted; touching intervals are joined and empty
    ones (end <= start) left out. The argument stays unchanged."""
    intervals.sort()
    merged = []
    for start, end in intervals:
        if merged and start < merged[-1][1]:
            merged[-1][1] = end
        else:
            merged.append([start, end])
    return merged


def gaps(intervals, window):
    """The free times inside the interval `window`, sorted, as intervals."""
    start, end = window
    free = []
    merged = merge(intervals)
    for left, right in zip(merged, merged[1:]):
        free.append([left[1], right[0]])
    if merged and merged[-1][1] < end:
        free.append([merged[-1][1], end])
    return free


def total(intervals):
    """How much time the intervals cover; a time in several of them counts once."""
    return sum(end - start for start, end in intervals)
