#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
python3 - <<'PROGRAM'
import re
from collections import Counter, defaultdict

LINE = re.compile(
    r'\S+ \S+ \S+ \[[^:\]]+:(\d\d):\d\d:\d\d [+-]\d{4}\] '
    r'"[A-Z]+ (\S+?)(?:\?.*?)? HTTP/[0-9.]+" (\d{3}) (\d+|-) (\d+)'
)
requests = sent = 0
errors, times = Counter(), defaultdict(list)
with open("access.log", encoding="utf-8") as file:
    for line in file:
        match = LINE.fullmatch(line.rstrip("\n"))
        if match is None:
            continue
        hour, path, status, size, milliseconds = match.groups()
        requests += 1
        sent += 0 if size == "-" else int(size)
        errors[path] += status.startswith("5")
        times[hour].append(int(milliseconds))
path = min(errors, key=lambda p: (-errors[p], p))
means = {hour: sum(found) / len(found) for hour, found in times.items()}
hour = min(means, key=lambda h: (-means[h], h))
with open("answers.txt", "w", encoding="utf-8") as file:
    file.write(f"requests {requests}\nbytes {sent}\n")
    file.write(f"errors {path} {errors[path]}\nslowest {hour} {int(means[hour])}\n")
PROGRAM
