#!/usr/bin/env bash
# Runs every test of every module with the race detector. With TIERLOCK_SERVERS=real the
# tests that start real servers run too; without it each says that it was left out. Three
# packages at a time: most of them wait for servers, two leave half of two cores idle. Some that
# wait for long come first, so that none of them is left alone at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
declare -A first=([.]="./switchcfg/nacossource ./reconcile/kafkasource" [test]="./history ./faults" [bench]="")
for mod in . test bench; do
  [ -f "$mod/go.mod" ] || continue
  echo "== go test ($mod)"
  # shellcheck disable=SC2086 # several packages, or none
  (cd "$mod" && go vet ./... && go test -race -p 3 -shuffle=on -timeout 20m -v ${first[$mod]} ./... >"$log" 2>&1) || status=$?
  # What a person reads: packages, failures and what was left out; the rest on failure only.
  grep -E '^(ok|FAIL|panic:|---? ?FAIL|\s+--- FAIL)' "$log" || true
  if [ "${status:-0}" -ne 0 ]; then
    grep -vE '^(=== (RUN|PAUSE|CONT|NAME)|\s*--- PASS)' "$log" |
      awk '{ said = said $0 "\n" } /^ok[ \t]/ { said = "" } /^FAIL\t/ { printf "%s", said; said = "" } END { printf "%s", said }' | # of packages that failed
      tail -n 400
    exit "$status"
  fi
  left=$(grep -c 'left out:' "$log" || true)
  [ "$left" -eq 0 ] || { echo "$left tests were left out:"; grep -oE 'left out:.*' "$log" | sort | uniq -c; }
done
