#!/usr/bin/env bash
# Runs check, scan and collect on a real driver and card, and compares what they read with nvidia-smi.
#
#   tests/gpu/nvml.sh            makes a venv from this repository (needs a package index)
#   WHEELS=DIR tests/gpu/nvml.sh installs from DIR alone: `pip wheel --wheel-dir DIR .` fills it where there is an index
#
# PYTHON names the interpreter (3.10 or newer), OUT the folder for the results. Takes well under a minute.
set -euo pipefail

repository=$(cd "$(dirname "$0")/../.." && pwd)
out=${OUT:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! command -v nvidia-smi >/dev/null; then
    echo "no nvidia-smi: this is for a machine with a driver" >&2
    exit 77 # as automake's tests say "skipped"
fi

"${PYTHON:-python3}" -m venv "$work/venv"
if [ -n "${WHEELS:-}" ]; then
    "$work/venv/bin/python" -m pip install --quiet --no-index --find-links "$WHEELS" envdoctor
else
    "$work/venv/bin/python" -m pip install --quiet "$repository"
fi
envdoctor=$work/venv/bin/envdoctor
mkdir -p "$out"

# Findings (1) are a result; anything beyond is a failure of envdoctor.
run() {
    local file=$1 code=0
    shift
    echo "--- envdoctor $*"
    time "$envdoctor" "$@" >"$out/$file" || code=$?
    if [ "$code" -gt 1 ]; then
        echo "envdoctor $1 ended with $code" >&2
        exit "$code"
    fi
}

run facts.json collect --no-redact
run check.txt check --verbose
run check.json check --format json
run scan.txt scan "$repository/fixtures/binaries"
nvidia-smi >"$out/nvidia-smi.txt"

cat "$out/check.txt"
head -40 "$out/scan.txt"
"$work/venv/bin/python" "$repository/tests/gpu/compare_with_nvidia_smi.py" "$out/facts.json"
