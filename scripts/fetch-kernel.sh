#!/bin/sh
# Fetches a Debian kernel with its modules, and a static busybox, of another
# architecture into directory $2, without installing anything: ./dev test-arch
# boots them in an emulator. $1 is Debian's name of the architecture. The packages
# come from the mirror that apt already uses and are checked with Debian's keys.
#
# 32-bit MIPS left Debian after release 12, so its kernel is that one's (6.1);
# the others are Debian 13's (6.12).
set -eu
arch=$1
dest=$2
release=trixie
case $arch in
amd64 | arm64 | riscv64 | s390x) kernel=linux-image-$arch ;;
armhf) kernel=linux-image-armmp ;;
ppc64el) kernel=linux-image-powerpc64le ;;
mipsel) kernel=linux-image-4kc-malta release=bookworm ;;
*) echo "fetch-kernel: Debian has no kernel for $arch" >&2; exit 1 ;;
esac
[ ! -e "$dest/kernel" ] || exit 0
# shellcheck disable=SC2016 # apt expands it
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -n 1)
[ -n "$mirror" ] || { echo "fetch-kernel: apt has no package mirror configured; run apt-get update" >&2; exit 1; }

mkdir -p "$(dirname "$dest")"
tmp=$(mktemp -d "$dest.XXXXXX")
trap 'rm -rf "$tmp"' EXIT INT TERM
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$tmp/root" "$tmp/dpkg"
: >"$tmp/dpkg/status"
echo "deb [arch=$arch signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" >"$tmp/sources.list"
options="-q -o Dir::Etc::SourceList=$tmp/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$tmp/lists
-o Dir::State::Status=$tmp/dpkg/status -o Dir::Cache=$tmp/cache -o APT::Sandbox::User=root -o APT::Architecture=$arch
-o APT::Architectures::=$arch -o APT::Default-Release= -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
-o Acquire::Languages=none"
fetch() {
	cd "$tmp"
	# shellcheck disable=SC2086 # a list of words
	apt-get $options update
	# The package of this name only depends on the one with the kernel.
	# shellcheck disable=SC2086
	image=$(apt-cache $options depends --important "$kernel" | sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
	# shellcheck disable=SC2086
	apt-get $options download "$image" busybox-static
}
if ! fetch >"$tmp/log" 2>&1; then
	tail -n 20 "$tmp/log" >&2
	exit 1
fi
for d in "$tmp"/*.deb; do dpkg -x "$d" "$tmp/root"; done
cd "$tmp/root"
modules=$(echo usr/lib/modules/* lib/modules/* | tr ' ' '\n' | grep -v '\*' | head -n 1)
version=$(basename "$modules")
depmod -b "${modules%lib/modules/*}." "$version"
mkdir "$tmp/out"
mv boot/vmlinu* "$tmp/out/kernel"
mv "$modules" "$tmp/out/modules"
for b in usr/bin/busybox bin/busybox; do [ ! -f "$b" ] || cp "$b" "$tmp/out/busybox"; done
echo "$version" >"$tmp/out/version"
mv -T "$tmp/out" "$dest" 2>/dev/null || [ -e "$dest/kernel" ]
