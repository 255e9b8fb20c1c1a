#!/bin/sh
# Fetches a User-Mode Linux of Debian 13 (kernel 6.12) with its modules and C
# library into directory $1, without installing anything: the tests that need
# VLANs boot it. The packages come from the mirror that apt already uses and are
# checked with Debian's keys.
set -eu
dest=$1

# A processor with AMX has more registers than this kernel knows of, see uml-xstate.c.
library="$(cd "$(dirname "$0")" && pwd)/uml-xstate.c"
with_all_registers() {
	grep -qw amx_tile /proc/cpuinfo || return 0
	[ ! -e "$dest/etc/ld.so.preload" ] || return 0
	built=$(mktemp "$dest/usr/lib/uml-xstate.XXXXXX")
	cc -O2 -Wall -Werror -shared -fPIC -o "$built" "$library"
	chmod 755 "$built"
	mv "$built" "$dest/usr/lib/uml-xstate.so"
	list=$(mktemp "$dest/etc/ld.so.preload.XXXXXX")
	echo /usr/lib/uml-xstate.so >"$list"
	chmod 644 "$list"
	mv "$list" "$dest/etc/ld.so.preload"
}
if [ -x "$dest/usr/bin/linux.uml" ]; then
	with_all_registers
	exit 0
fi

# shellcheck disable=SC2016 # apt expands it
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -n 1)
[ -n "$mirror" ] || { echo "fetch-uml: apt has no package mirror configured; run apt-get update" >&2; exit 1; }

mkdir -p "$(dirname "$dest")"
tmp=$(mktemp -d "$dest.XXXXXX")
trap 'rm -rf "$tmp"' EXIT INT TERM
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$tmp/root"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$tmp/sources.list"
apt() {
	apt-get -q -o Dir::Etc::SourceList="$tmp/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::State::Lists="$tmp/lists" -o Dir::Cache="$tmp/cache" -o APT::Sandbox::User=root \
		-o APT::Default-Release= -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null "$@"
}
if ! { apt update && cd "$tmp" && apt download user-mode-linux/trixie libc6/trixie; } >"$tmp/log" 2>&1; then
	tail -n 20 "$tmp/log" >&2
	exit 1
fi
for d in "$tmp"/*.deb; do dpkg -x "$d" "$tmp/root"; done
# The loader looks for /lib64; Debian keeps it below /usr.
for l in lib lib64 bin; do ln -sfn "usr/$l" "$tmp/root/$l"; done
mkdir -p "$tmp/root/proc" "$tmp/root/sys" "$tmp/root/dev" "$tmp/root/tmp" "$tmp/root/run" "$tmp/root/etc" "$tmp/root/var" "$tmp/root/tests"
# Two test runs may fetch at once: the first one to finish wins.
mv -T "$tmp/root" "$dest" 2>/dev/null || [ -x "$dest/usr/bin/linux.uml" ]
with_all_registers
