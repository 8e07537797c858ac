#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
cat > slugify.py <<'PROGRAM'
import re
import sys
import unicodedata

sys.stdin.reconfigure(encoding="utf-8")
seen = set()
for line in sys.stdin:
    text = unicodedata.normalize("NFKD", line)
    text = "".join(ch for ch in text if not unicodedata.combining(ch)).lower()
    base = re.sub(r"[^a-z0-9]+", "-", text).strip("-")[:40].rstrip("-") or "untitled"
    slug, number = base, 1
    while slug in seen:
        number += 1
        slug = f"{base}-{number}"
    seen.add(slug)
    print(slug)
PROGRAM
