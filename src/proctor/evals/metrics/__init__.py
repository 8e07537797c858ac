"""From observations to numbers: contract, reducers, statistics, report."""
