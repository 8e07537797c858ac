#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
python3 - <<'PROGRAM'
import csv
import re
from datetime import datetime


def address(text):
    text = text.strip().lower()
    local, _, domain = text.partition("@")
    dotted = "." in domain.strip(".") and domain == domain.strip(".")
    return text if local and "@" not in domain and dotted else None


def phone(text):
    text = text.strip()
    digits = re.sub(r"\D", "", text)
    if text.startswith("+"):
        return "+" + digits if digits else ""
    return "+" + digits[2:] if digits.startswith("00") else digits


def day(text):
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"):
        try:
            return datetime.strptime(text.strip(), form).strftime("%Y-%m-%d")
        except ValueError:
            continue
    return ""


rows = {}
with open("contacts.csv", encoding="utf-8", newline="") as file:
    for row in csv.DictReader(file):
        email = address(row["email"])
        if email is not None:
            name = " ".join(row["name"].split())
            rows[email] = [email, name, phone(row["phone"]), day(row["joined"])]
with open("clean.csv", "w", encoding="utf-8", newline="") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["email", "name", "phone", "joined"])
    writer.writerows(rows[email] for email in sorted(rows))
PROGRAM
