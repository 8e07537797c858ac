def rotate(items, steps):
    """The items moved `steps` places to the right."""
    return items[steps:] + items[:steps]
