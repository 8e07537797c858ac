#!/bin/bash
reward=0
if [ "$(sh /app/greet.sh)" = "$WANTED" ] &&
    [ "$(GREETING=Hi TARGET='all of you' sh /app/greet.sh)" = "Hi, all of you!" ] &&
    [ "$SPARE" = "two words" ] && [ "${PATH%%:*}" = "/opt/greeting/bin" ]; then
    reward=1
fi
printf '%s' "$reward" > /logs/verifier/reward.txt
