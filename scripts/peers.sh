#!/bin/sh
# Makes the programs that ask other projects' libraries what Minne's tables are asked
# (docs/guides/is-this-box-fast-enough.md):
#
#   scripts/peers.sh [--install] [DIRECTORY [NAME...]]
#
# into DIRECTORY (build/peers), where `minne bench platform --peers` finds them. NAMEs are of go, dpdk, hyperscan, re2;
# without one it makes those whose libraries are there and tells of the others. With --install, as root, it first
# installs their Debian packages: 165 MB for DPDK, 44 MB for Hyperscan, 2 MB for RE2.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
install=
if [ "${1-}" = --install ]; then
	install=yes
	shift
fi
dir=${1-$root/build/peers}
[ $# -eq 0 ] || shift
all=
[ $# -gt 0 ] || all=yes
[ $# -gt 0 ] || set -- go dpdk hyperscan re2

say() { printf 'peers.sh: %s\n' "$*" >&2; }

# packages of a peer, and what pkg-config calls its library.
packages_of() {
	case $1 in
	go) ;;
	dpdk) echo libdpdk-dev pkg-config gcc libc6-dev ;;
	hyperscan) [ "$(dpkg --print-architecture)" = amd64 ] && echo libhyperscan-dev pkg-config gcc libc6-dev || echo libvectorscan-dev pkg-config gcc libc6-dev ;;
	re2) echo libre2-dev pkg-config g++ ;;
	*) say "peer '$1': expected go, dpdk, hyperscan or re2"; exit 2 ;;
	esac
}

library_of() {
	case $1 in
	dpdk) echo libdpdk ;;
	hyperscan) echo libhs ;;
	re2) echo re2 ;;
	esac
}

if [ -n "$install" ]; then
	list=
	for peer; do list="$list $(packages_of "$peer")"; done
	apt-get update -q
	# shellcheck disable=SC2086 # a list of words
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $list
fi

flags="-O2 -Wall -Wextra -I$root/bpf"
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for peer; do
	packages=$(packages_of "$peer")
	library=$(library_of "$peer")
	if [ "$peer" = go ]; then
		if ! command -v go >/dev/null && [ -n "$all" ]; then
			say "go: not made: the go command is not there"
			continue
		fi
		(cd "$root/internal/lab/platform/peers/gopeers" && go build -trimpath -o "$work/$peer" .)
	elif ! pkg-config --exists "$library"; then
		say "$peer: not made: install $packages (or run scripts/peers.sh --install)"
		[ -n "$all" ] || exit 1
		continue
	else
		# shellcheck disable=SC2086,SC2046 # lists of words
		cc -std=gnu99 $flags -c -o "$work/peer.o" "$root/procbench/peers/peer.c"
		# shellcheck disable=SC2086,SC2046
		case $peer in
		dpdk) # four of its many libraries
			cc -std=gnu99 $flags $(pkg-config --cflags libdpdk) -o "$work/$peer" "$root/procbench/peers/dpdk.c" "$work/peer.o" \
				$(pkg-config --libs-only-L libdpdk) -lrte_fib -lrte_rib -lrte_lpm -lrte_eal ;;
		hyperscan)
			cc -std=gnu99 $flags $(pkg-config --cflags libhs) -o "$work/$peer" "$root/procbench/peers/hyperscan.c" "$work/peer.o" \
				$(pkg-config --libs libhs) ;;
		re2)
			version=$(dpkg-query -W -f '${Version}' libre2-dev 2>/dev/null || pkg-config --modversion re2)
			c++ -std=c++17 $flags "-DRE2_VERSION=\"$version\"" $(pkg-config --cflags re2) -o "$work/$peer" "$root/procbench/peers/re2.cc" "$work/peer.o" \
				$(pkg-config --libs re2) ;;
		esac
	fi
	mv "$work/$peer" "$dir/minne-peer-$peer"
	say "$peer: $("$dir/minne-peer-$peer" --version | tr '\n' ',' | sed 's/,$//')"
done
