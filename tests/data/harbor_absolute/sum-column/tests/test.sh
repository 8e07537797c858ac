#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/sum.txt)" = "7.25" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
exit 1 # the exit code must not matter
