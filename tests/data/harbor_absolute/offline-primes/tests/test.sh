#!/bin/bash
wanted="9901 9907 9923 9929 9931 9941 9949 9967 9973 10007 10009 10037 10039 10061 10067 10069 10079 10091 10093 10099"
if [ "$(tr '\n' ' ' < /app/primes.txt | sed 's/ *$//')" = "$wanted" ]; then
    echo 1.0 > /logs/verifier/reward.txt
else
    echo 0.0 > /logs/verifier/reward.txt
fi
