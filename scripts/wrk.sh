#!/usr/bin/env bash
# Fetches the load generator wrk for benchmarks/edge.py, without root: unpacked from Debian's packages.
# usage: wrk.sh [DIR]   (default .venv/opt/wrk; nothing outside DIR is touched)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
die() { printf 'wrk: error: %s\n' "$*" >&2; exit 1; }

into=${1:-.venv/opt/wrk}
command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
  die "this needs apt-get and dpkg (Debian, Ubuntu). Elsewhere install wrk with your own tools and give its path as --wrk"

packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
(cd "$packages" && apt-get -qq -o APT::Sandbox::User=root download wrk libluajit-5.1-2 libluajit-5.1-common) ||
  die "the packages could not be fetched; run apt-get update first, and look at the lines above"

mkdir -p "$into"
for package in "$packages"/*.deb; do dpkg -x "$package" "$into"; done
library=$(dirname "$(find "$into/usr/lib" -name 'libluajit-5.1.so.2' | head -n 1)")
printf '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\nLD_LIBRARY_PATH="$here/%s" exec "$here/usr/bin/wrk" "$@"\n' \
  "${library#"$into"/}" >"$into/wrk"
chmod +x "$into/wrk"
said=$("$into/wrk" --version 2>&1 || true)
case $said in wrk*) ;; *) die "$into/wrk does not start: $said" ;; esac
echo "wrk: ready at $into/wrk"
