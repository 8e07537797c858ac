#!/bin/bash
set -eu
python3 -c 'print(*(n for n in range(9900, 10101) if all(n % d for d in range(2, 101))), sep="\n")' \
    > /app/primes.txt
