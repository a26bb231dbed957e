#!/usr/bin/env bash
# Puts Debian's kernel for virtual machines into target/vm and installs QEMU, for `make vm-test`. The kernel's package is
# unpacked there and not installed: nothing of the system's own booting changes.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'vm: %s\n' "$*"; }

if ! command -v apt-get >/dev/null || [ "$(uname -m)" != x86_64 ]; then
  say "skipped: this fetches Debian's kernel for x86-64; put any vmlinuz into target/vm to use that"
  exit 0
fi
scripts/setup.sh qemu-system-x86
compgen -G 'target/vm/vmlinuz*' >/dev/null && exit 0
package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -nE 's/^ *Depends: (linux-image-[^ ]+)$/\1/p' | head -n 1)
if [ -z "$package" ]; then
  say "skipped: no package linux-image-cloud-amd64 here (Debian has it)"
  exit 0
fi
mkdir -p target/vm
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
say "fetching $package"
if ! (cd "$folder" && apt-get download -qq "$package" 2>/dev/null); then
  say "skipped: $package cannot be fetched"
  exit 0
fi
dpkg-deb --fsys-tarfile "$folder"/*.deb | tar -xf - -C "$folder" --wildcards './boot/vmlinuz*'
mv "$folder"/boot/vmlinuz* target/vm/
