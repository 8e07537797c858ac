#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
cat > invoice.py <<'PROGRAM'
"""Invoices as text. All amounts are whole cents."""

MEMBER_RATES = ((100_000, 10), (20_000, 5))
GUEST_RATES = ((100_000, 3),)
TAX_PERCENT = 19


def line_total(line):
    """The price of one line; ten or more of one kind cost 5 % less, rounded down."""
    total = line["count"] * line["cents"]
    return total - -(-total * 5 // 100) if line["count"] >= 10 else total


def discount(order, subtotal):
    """What is taken off the subtotal."""
    for above, percent in MEMBER_RATES if order.get("member") else GUEST_RATES:
        if subtotal > above:
            return subtotal * percent // 100
    return 0


def tax(amount):
    """The tax on a net amount, rounded half up."""
    return (amount * TAX_PERCENT + 50) // 100


def money(cents):
    """An amount as text."""
    return f"{cents // 100}.{cents % 100:02d}"


def render(order):
    """The invoice of an order: {"customer", "member", "lines": [{"name", "count", "cents"}]}."""
    totals = [line_total(line) for line in order["lines"]]
    off = discount(order, sum(totals))
    net = sum(totals) - off
    rows = [
        f"  {line['count']} x {line['name']}: {money(total)}"
        for line, total in zip(order["lines"], totals)
    ]
    rows += [f"  discount: -{money(off)}"] if off > 0 else []
    rows += [f"  tax: {money(tax(net))}", f"Total: {money(net + tax(net))}"]
    return "\n".join([f"Invoice for {order['customer']}", *rows]) + "\n"
PROGRAM
