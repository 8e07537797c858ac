#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
cat > route.py <<'PROGRAM'
import heapq
import sys

lines = [line.split() for line in sys.stdin if line.strip()]
start, goal = lines[0]
roads = {}
for source, target, cost in lines[1:]:
    roads.setdefault(source, []).append((target, int(cost)))

# Cost and number of roads to the goal, backwards; then forwards along the best, by name.
reverse = {}
for source, targets in roads.items():
    for target, cost in targets:
        reverse.setdefault(target, []).append((source, cost))
best = {}
queue = [(0, 0, goal)]
while queue:
    cost, count, place = heapq.heappop(queue)
    if place in best:
        continue
    best[place] = (cost, count)
    for source, extra in reverse.get(place, ()):
        if source not in best:
            heapq.heappush(queue, (cost + extra, count + 1, source))
if start not in best:
    print("none")
    sys.exit()
route = [start]
while route[-1] != goal:
    cost, count = best[route[-1]]
    route.append(
        min(
            target
            for target, extra in roads[route[-1]]
            if best.get(target) == (cost - extra, count - 1)
        )
    )
print(best[start][0], *route)
PROGRAM
