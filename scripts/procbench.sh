#!/bin/sh
# Compiles minne-procbench, static, for an architecture as Go calls it:
#
#   scripts/procbench.sh ARCHITECTURE OUTPUT [FLAG...]
#
# with Debian's (cross) compiler of that architecture, which ./dev installs.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
arch=$1
out=$2
shift 2

tune=
case $arch in
amd64) triple=x86_64-linux-gnu ;;
arm64) triple=aarch64-linux-gnu ;;
arm) triple=arm-linux-gnueabihf tune=-march=armv7-a+fp ;;
mips) triple=mips-linux-gnu ;;
mipsle) triple=mipsel-linux-gnu ;;
ppc64le) triple=powerpc64le-linux-gnu ;;
riscv64) triple=riscv64-linux-gnu ;;
*) echo "procbench.sh: architecture $arch: expected amd64, arm64, arm, mips, mipsle, ppc64le or riscv64" >&2; exit 1 ;;
esac
command -v "$triple-gcc" >/dev/null || {
	echo "procbench.sh: $triple-gcc not found: ./dev test installs it (apt-get install gcc-$triple, with libc6-dev for it)" >&2
	exit 1
}
mkdir -p "$(dirname "$out")"
# shellcheck disable=SC2086 # $tune is a flag or nothing
"$triple-gcc" -std=gnu99 -O2 -Wall -Wextra -static -s $tune -I"$root/bpf" "$@" -o "$out.part" "$root"/procbench/*.c
mv "$out.part" "$out"
