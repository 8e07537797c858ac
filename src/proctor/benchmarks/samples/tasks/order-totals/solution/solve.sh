#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
python3 - <<'PROGRAM'
import json
from collections import Counter
from decimal import Decimal

orders = {}
with open("orders.jsonl", encoding="utf-8") as file:
    for line in file:
        order = json.loads(line)
        orders[order["order"]] = order
counts, totals, sold = Counter(), Counter(), Counter()
for order in orders.values():
    if order["status"] not in ("paid", "shipped"):
        continue
    counts[order["customer"]] += 1
    for line in order["lines"]:
        totals[order["customer"]] += line["quantity"] * Decimal(line["price"])
        sold[line["sku"]] += line["quantity"]
report = {
    "customers": {c: {"orders": n, "total": f"{totals[c]:.2f}"} for c, n in counts.items()},
    "best_sku": min(sold, key=lambda sku: (-sold[sku], sku)),
    "cancelled": sorted(n for n, o in orders.items() if o["status"] == "cancelled"),
}
with open("totals.json", "w", encoding="utf-8") as file:
    json.dump(report, file, indent=2, ensure_ascii=False)
PROGRAM
