"""Invoices as text. All amounts are whole cents."""


def render(order):
    """The invoice of an order: {"customer", "member", "lines": [{"name", "count", "cents"}]}."""
    out = "Invoice for " + order["customer"] + "\n"
    sub = 0
    for line in order["lines"]:
        t = line["count"] * line["cents"]
        if line["count"] >= 10:
            # ten or more of one kind: 5 % off, in favour of the customer
            t = t - -(-t * 5 // 100)
        sub = sub + t
        out = out + "  " + str(line["count"]) + " x " + line["name"] + ": "
        out = out + str(t // 100) + "." + ("0" + str(t % 100))[-2:] + "\n"
    if order.get("member"):
        if sub > 100000:
            d = sub * 10 // 100
        elif sub > 20000:
            d = sub * 5 // 100
        else:
            d = 0
    else:
        if sub > 100000:
            d = sub * 3 // 100
        else:
            d = 0
    if d > 0:
        out = out + "  discount: -" + str(d // 100) + "." + ("0" + str(d % 100))[-2:] + "\n"
    net = sub - d
    x = (net * 19 + 50) // 100
    out = out + "  tax: " + str(x // 100) + "." + ("0" + str(x % 100))[-2:] + "\n"
    g = net + x
    out = out + "Total: " + str(g // 100) + "." + ("0" + str(g % 100))[-2:] + "\n"
    return out
