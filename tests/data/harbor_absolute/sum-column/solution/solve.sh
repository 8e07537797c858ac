#!/bin/bash
set -eu
awk -F, 'NR > 1 && $2 != "void" { sum += $3 } END { printf "%.2f\n", sum }' \
    /app/data/payments.csv > /app/sum.txt
