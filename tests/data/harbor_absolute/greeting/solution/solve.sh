#!/bin/bash
set -eu
printf '#!/bin/sh\nprintf "%%s, %%s%s\\n" "$GREETING" "$TARGET"\n' "$MARK" > /app/greet.sh
