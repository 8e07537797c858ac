"""Resume of a run that is all but finished, beside other systems."""
