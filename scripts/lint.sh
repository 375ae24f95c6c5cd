#!/usr/bin/env bash
# Runs the linters, or with "fmt" the formatters, of .golangci.yml over every module. The
# linter is pinned here and never enters go.mod.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v2.15.0
bin="$(go env GOPATH)/bin/golangci-lint"
if [ ! -x "$bin" ] || ! "$bin" version 2>/dev/null | grep -q "${version#v}"; then
  go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
fi
verb=${1:-run}
for mod in . test bench; do
  [ -f "$mod/go.mod" ] || continue
  echo "== golangci-lint $verb ($mod)"
  (cd "$mod" && "$bin" "$verb" ./...)
done
