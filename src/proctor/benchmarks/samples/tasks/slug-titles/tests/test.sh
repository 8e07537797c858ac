#!/bin/sh
# Grades the workspace. The verdict is written last, over whatever the graded programs wrote;
# when the grading itself fails there is none.
tests=${TESTS_DIR:-/tests}
logs=${LOGS_DIR:-/logs}/verifier
mkdir -p "$logs"
python3 -I -B "$tests/check.py" "${WORKSPACE:-/app}"
code=$?
rm -rf "$logs/reward.json" "$logs/reward.txt"
case $code in
    0) echo 1 > "$logs/reward.txt" ;;
    10) echo 0 > "$logs/reward.txt" ;;
esac
