#!/usr/bin/env bash
# Fetches Prometheus and promtool of this Debian into the virtual environment; needs no root, changes no
# system. usage: prometheus.sh VENV_DIR   (they end up in VENV_DIR/opt/prometheus/usr/bin)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${1:-.venv}
say() { printf 'prometheus: %s\n' "$*"; }
die() { printf 'prometheus: error: %s\n' "$*" >&2; exit 1; }

target=$venv/opt/prometheus
if "$target/usr/bin/promtool" --version >/dev/null 2>&1; then
  say "already in $target"
  exit 0
fi
[ -d "$venv" ] || die "there is no $venv; run \`make setup\` first"
for tool in apt-get dpkg; do
  command -v "$tool" >/dev/null || die "$tool is not here: this works on Debian and Ubuntu only. Put" \
    "promtool and prometheus on PATH instead"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
(cd "$work" && apt-get download prometheus) >"$log" 2>&1 || {
  tail -n 3 "$log" >&2
  die "apt-get could not fetch the package prometheus; are there package lists (apt-get update) and a network?"
}
dpkg -x "$work"/prometheus_*.deb "$work/tree"
mkdir -p "$venv/opt"
rm -rf "$target"
mv "$work/tree" "$target"
say "$("$target/usr/bin/promtool" --version 2>&1 | head -n 1) in $target"
