#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
cat > workdays.py <<'PROGRAM'
import re
import sys
from datetime import date, timedelta
from pathlib import Path

DAY = timedelta(days=1)
lines = (Path(__file__).parent / "holidays.txt").read_text(encoding="utf-8").splitlines()
holidays = {text for line in lines if (text := line.split("#")[0].strip())}


def parse(text):
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        raise ValueError(text)
    return date.fromisoformat(text)


def works(day):
    text = day.isoformat()
    return day.weekday() < 5 and text not in holidays and text[5:] not in holidays


def count(first, last):
    days = (first + n * DAY for n in range((last - first).days + 1))
    return sum(works(day) for day in days)


def add(day, number):
    if number == 0:
        while not works(day):
            day += DAY
    step = DAY if number > 0 else -DAY
    while number:
        day += step
        if works(day):
            number -= 1 if number > 0 else -1
    return day


def answer(words):
    if len(words) == 3 and words[0] == "count":
        first, last = parse(words[1]), parse(words[2])
        return count(first, last) if first <= last else -count(last, first)
    if len(words) == 3 and words[0] == "add" and re.fullmatch(r"-?\d+", words[2], re.ASCII):
        return add(parse(words[1]), int(words[2])).isoformat()
    raise ValueError(words)


for line in sys.stdin:
    try:
        print(answer(line.split()))
    except ValueError:
        print("error")
PROGRAM
