#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the Debian 12 packages that are missing. usage: tools/install_deps.sh [--lint]
#   (nothing)  what building and testing needs
#   --lint     also what `make lint`, `make format` and `make fuzz` need
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache
  libhwy-dev libopenblas-openmp-dev libcli11-dev nlohmann-json3-dev libfmt-dev
  libgtest-dev libgmock-dev python3 python3-jsonschema gnuplot-nox libssl-dev libtomlplusplus-dev libsqlite3-dev git
)
if [[ "${1:-}" == --lint ]]; then
  packages+=(clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev libomp-14-dev)
elif [[ $# -gt 0 ]]; then
  echo "install_deps.sh: unknown argument '$1' (expected nothing or --lint)" >&2
  exit 2
fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install_deps.sh: no apt-get here. Install the equivalents of these Debian 12 packages by hand:" >&2
  echo "  ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$status" == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps.sh: neither root nor sudo. Have these packages installed: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} missing packages: ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
