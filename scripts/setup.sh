#!/usr/bin/env bash
# Installs the system packages that building chiplet needs and that this machine lacks. Says what it does.
# Debian and Ubuntu are handled; elsewhere it checks, and names what is missing.
# Arguments: programs that are wanted besides, where the package has the program's name (valgrind for `make bench`).
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Whether version $1 is at least version $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

cmake_ok() {
  command -v cmake >/dev/null &&
    at_least "$(cmake --version | sed -nE '1s/.*version ([0-9.]+).*/\1/p')" 3.24
}

check_rust() {
  command -v cargo >/dev/null ||
    fail "no cargo found: install Rust from https://rustup.rs, open a new shell, and run this again"
  local need have
  need=$(sed -nE 's/^rust-version = "([0-9.]+)"/\1/p' Cargo.toml)
  have=$(rustc --version | sed -nE 's/^rustc ([0-9.]+).*/\1/p')
  at_least "$have" "$need" ||
    fail "rustc $have is too old, chiplet needs $need: run 'rustup update stable'"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "not root and no sudo: as root, run '$*', then run this again"
  fi
}

apt_install() {
  say "installing with apt-get: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

missing_debian() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
      printf '%s\n' "$package"
  done
}

setup_debian() {
  local wanted=(g++ make pkg-config libhwloc-dev libudev-dev libopenblas-dev "$@") missing
  # A cmake that is new enough may come from anywhere; otherwise the distribution's is tried first.
  cmake_ok || wanted+=(cmake)
  mapfile -t missing < <(missing_debian "${wanted[@]}")
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
  cmake_ok && return
  mapfile -t missing < <(missing_debian python3-venv)
  [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
  say "cmake here is older than 3.24: installing a newer one from PyPI into target/tools"
  mkdir -p target
  python3 -m venv target/tools
  target/tools/bin/pip install --quiet 'cmake>=3.24'
}

check_elsewhere() {
  local missing=() program
  for program in "$@"; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  command -v c++ >/dev/null || missing+=("a C++17 compiler")
  cmake_ok || missing+=("cmake 3.24 or newer")
  command -v pkg-config >/dev/null || missing+=("pkg-config")
  pkg-config --exists hwloc 2>/dev/null || missing+=("hwloc 2.x with headers (Fedora: hwloc-devel, Arch and Homebrew: hwloc)")
  [ ${#missing[@]} -eq 0 ] && return
  printf 'setup: missing: %s\n' "${missing[@]}" >&2
  fail "install these and OpenBLAS with headers (Fedora: openblas-devel, Arch and Homebrew: openblas), then run this again"
}

# What a full disk does to a build does not look like it: a linker that dies of a bus error.
check_disk() {
  local free
  free=$(df -Pk . | awk 'NR == 2 {print int($4 / 1024 / 1024)}')
  [ "$free" -ge 10 ] || say "warning: $free GiB are free on this disk, and 'make test' fills 4 GB of target/, with line tables more"
}

check_rust
check_disk
if command -v apt-get >/dev/null; then setup_debian "$@"; else check_elsewhere "$@"; fi
