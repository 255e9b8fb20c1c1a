#!/bin/sh
# Installs what building, testing and the demo need, and nothing that is there
# already. Sourced by ./dev.

# Services, made by go test ./internal/subsystem/services -update
service_packages="hostapd wpasupplicant udhcpc dhcpcd-base ppp dnsmasq-base chrony openssh-server lldpd"
service_units="hostapd wpa_supplicant chrony ssh lldpd"
# End of services
packages="make ca-certificates clang-19 llvm-19 libclang-rt-19-dev gcc libc6-dev libbpf-dev linux-libc-dev
iproute2 nftables conntrack ethtool frr bird2 iperf3 curl traceroute iputils-ping procps systemd dosfstools tcpdump util-linux
$service_packages openssh-client openssl nmap kea-dhcp6-server nfdump pebble"

# peer_packages prints the libraries whose answers the tests compare with Minne's: 7 MB of downloads, 46 MB installed. DPDK, 32
# MB more, is for scripts/peers.sh only.
peer_packages() {
	echo g++ pkg-config libre2-dev
	case $(dpkg --print-architecture) in
	amd64) echo libhyperscan-dev ;;
	*) echo libvectorscan-dev ;;
	esac
}

# cross_packages prints what the tests compile and run minne-procbench by for other architectures: 280 MB of
# downloads. The machine's own compiler is in the list above.
cross_packages() {
	own=$(dpkg --print-architecture)
	for a in x86-64-linux-gnu:amd64 aarch64-linux-gnu:arm64 arm-linux-gnueabihf:armhf mips-linux-gnu:mips \
		mipsel-linux-gnu:mipsel powerpc64le-linux-gnu:ppc64el riscv64-linux-gnu:riscv64; do
		[ "${a#*:}" = "$own" ] || echo "gcc-${a%:*} libc6-dev-${a#*:}-cross"
	done
	echo qemu-user-static
}

# lab_packages prints what nodes of the tests' labs run that no Minne runs: both ends of WireGuard and PPPoE, NAT of another make.
lab_packages() {
	echo wireguard-tools wireguard-go ppp pppoe iptables
}

# image_packages prints what makes the disk image and boots it in an emulator.
image_packages() { echo mmdebstrap zstd xz-utils qemu-system-x86 ovmf e2fsprogs squashfs-tools openssl; }

# emulator_packages prints what ./dev test-arch boots other processors with.
emulator_packages() {
	echo qemu-system-x86 qemu-system-arm qemu-system-mips qemu-system-ppc qemu-system-misc qemu-system-data seabios opensbi kmod xz-utils e2fsprogs
}

# check_packages prints what reads the shell scripts of this tree.
check_packages() { echo shellcheck; }

# retry runs a command that fetches, up to five times: a name server or a mirror may fail once.
retry() {
	for pause in 2 4 8 16 0; do
		if "$@"; then return 0; fi
		[ $pause = 0 ] || { echo "dev: failed, trying again in $pause s: $*" >&2; sleep $pause; }
	done
	return 1
}

# install_packages brings the Debian packages. Routing daemons that a package
# would start by itself stay off: the lab starts its own, in its namespaces.
install_packages() {
	command -v apt-get >/dev/null || die "apt-get not found: Debian 12 or 13 expected"
	missing=
	for p in $packages; do
		case $(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) in
		*' installed') ;;
		*) missing="$missing $p" ;;
		esac
	done
	[ -n "$missing" ] || return 0
	[ "$(id -u)" = 0 ] || die "run it once as root, or install these packages:$missing"
	echo "installing:$missing"
	policy=/usr/sbin/policy-rc.d
	own_policy=
	if [ ! -e $policy ]; then
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod 755 $policy
		own_policy=yes
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT INT TERM
	fi
	log=$(mktemp)
	# shellcheck disable=SC2086 # a list of words
	if ! retry bring_packages $missing >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		die "apt-get could not install:$missing (log: $log)"
	fi
	rm -f "$log"
	if [ -n "$own_policy" ]; then
		rm -f $policy
		trap - EXIT INT TERM
	fi
	# policy-rc.d kept them down now; this keeps them down after the next boot.
	for unit in frr bird kea-dhcp6-server $service_units; do
		case $missing in *" $unit"* | *" open$unit-server"*)
			if [ -d /run/systemd/system ]; then systemctl disable -q "$unit" 2>/dev/null || :; fi
			;;
		esac
	done
}

bring_packages() { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; }

# fetch_modules brings the Go modules that go.mod names.
fetch_modules() { retry go mod download || die "the Go modules could not be fetched: see the lines above"; }

# fetch_staticcheck puts staticcheck, of a version that is pinned here, below the user's cache and prints where it is.
staticcheck_version=v0.8.2
fetch_staticcheck() {
	staticcheck=${XDG_CACHE_HOME:-$HOME/.cache}/minne/staticcheck-$staticcheck_version/staticcheck
	export staticcheck
	[ ! -x "$staticcheck" ] || return 0
	echo "fetching staticcheck $staticcheck_version"
	GOFLAGS='' GOBIN=${staticcheck%/*} retry go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck_version" ||
		die "staticcheck could not be fetched from the module proxy"
}

# fetch_user_mode_linux brings the kernel that the tests boot for VLANs, VRFs and more (internal/lab UMLTree).
fetch_user_mode_linux() {
	retry sh scripts/fetch-uml.sh "${XDG_CACHE_HOME:-$HOME/.cache}/minne/uml-trixie" || die "User-Mode Linux could not be fetched"
}

# fetch_image_packages brings the Debian packages that the image is made of.
fetch_image_packages() { retry sh image/build.sh --fetch || die "the packages of the image could not be fetched"; }

# The Go that the module needs comes from go.mod; the one that is fetched when
# the machine has none, or one too old, is pinned here.
go_fetch=1.25.10

# go_number prints the version of the go command $1 as a number: 1.25.3 → 12503.
go_number() {
	GOTOOLCHAIN=local "$1" version 2>/dev/null | sed -E 's/^go version go([0-9]+)\.([0-9]+)(\.([0-9]+))?.*/\1 \2 \4/' |
		awk '{ printf "%d\n", $1 * 10000 + $2 * 100 + $3 }'
}

# install_go puts a go command that can build go.mod on PATH: the machine's own,
# else one that fetches its successor by itself (Go 1.21 and later do), else one
# from the Go module proxy, checked against the checksum database.
install_go() {
	need=$(awk '$1 == "go" { split($2, v, "."); print v[1] * 10000 + v[2] * 100 + v[3] }' go.mod)
	cached=${XDG_CACHE_HOME:-$HOME/.cache}/minne/go-$go_fetch
	PATH=$PATH:/usr/local/go/bin
	if [ -x "$cached/bin/go" ]; then PATH=$cached/bin:$PATH; fi
	command -v go >/dev/null || { packages=golang-go install_packages; }
	have=$(go_number go)
	if [ "${have:-0}" -ge "$need" ]; then
		export PATH
		return 0
	fi
	if [ "${have:-0}" -ge 12100 ]; then
		export PATH GOTOOLCHAIN="go$go_fetch+auto"
		return 0
	fi
	echo "fetching Go $go_fetch"
	case $(dpkg --print-architecture) in
	amd64) arch=amd64 ;; arm64) arch=arm64 ;; armhf) arch=arm ;; i386) arch=386 ;;
	*) die "no Go $go_fetch for this architecture: install Go ≥ $(awk '$1 == "go" { print $2 }' go.mod) by hand" ;;
	esac
	dir=$(cd / && GOFLAGS=-mod=mod go mod download -json "golang.org/toolchain@v0.0.1-go$go_fetch.linux-$arch" |
		sed -n 's/^[[:space:]]*"Dir": "\(.*\)",$/\1/p')
	[ -n "$dir" ] || die "Go $go_fetch could not be fetched from the module proxy"
	mkdir -p "$(dirname "$cached")"
	rm -rf "$cached.part"
	cp -r "$dir" "$cached.part"
	# Old versions of go unpack modules read-only and without execute bits.
	chmod -R u+w "$cached.part"
	chmod 755 "$cached.part"/bin/* "$cached.part"/pkg/tool/*/*
	mv "$cached.part" "$cached"
	PATH=$cached/bin:$PATH
	export PATH
}
