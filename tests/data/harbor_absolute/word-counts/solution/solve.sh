#!/bin/bash
set -eu
cd /srv/work
python3 - <<'PROGRAM'
import json
from pathlib import Path

counts = {p.name: len(p.read_text().split()) for p in Path("/data/texts").iterdir()}
Path("counts.json").write_text(json.dumps(counts))
Path("total.txt").write_text(str(sum(counts.values())))
PROGRAM
