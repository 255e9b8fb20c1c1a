#!/bin/sh
# Makes the router's disk image: build/minne-VERSION-ARCH.img, the same compressed (.img.zst), the system alone with its trailer
# as what an upgrade reads (.upgrade), and a manifest that names every package with version, hash and licence (.manifest.json).
#
# Nothing is installed and nothing mounted. Debian's packages are unpacked into a directory; the programs that make squashfs,
# FAT, ext4, GPT and GRUB run in a chroot of it, so that the result does not depend on the machine it is made on. All times in
# the image are that of the commit: one commit, one set of packages and one key give one image, bit for bit.
#
#   packages.sh   fetches and unpacks the packages
#   root.sh       picks the router's files out of them: the base's squashfs, with kernel and initramfs in it
#   sets.sh       the same for the sets that are built (--with)
#   disk.sh       partitions, GRUB, file systems
set -eu
cd "$(dirname "$0")/.."
die() { printf 'image: %s\n' "$*" >&2; exit 1; }
say() { printf '%3ds  %s\n' $(($(date +%s) - began)) "$*"; }
began=$(date +%s)

. image/packages.sh
. image/root.sh
. image/sets.sh
. image/disk.sh

arch=amd64 slot_size=128 sets='' packages='' firmware='' key='' fresh='' only_fetch=''
base_limit=75000000 # bytes: a base that grows past it has something in it that should be a set
usage() {
	cat <<-END
	./dev image [--with SET[,SET]] [--size MiB] [--firmware] [--packages MANIFEST] [--key FILE] [--fresh] [--fetch] [--arch amd64]
	  --with      sets to add to the base, of: $all_sets
	  --size      room for each of the two systems (default $slot_size)
	  --firmware  firmware that is not free, for some wired chips, and Wi-Fi's with that set
	  --packages  the packages of an earlier build, by its manifest: refused when the mirror has others
	  --key       ed25519 private key (PEM, minne lab keygen) that signs the upgrade file, and whose upgrades the image takes; a
	              public key gives the same image and an unsigned upgrade file. Without --key, one that is made in build/ once,
	              so that images of one checkout take each other
	  --fresh     fetch the packages again, even those that an earlier build left
	  --fetch     fetch the packages and stop: a later build fetches nothing
	END
}
while [ $# -gt 0 ]; do
	case $1 in
	--arch) arch=$2; shift 2 ;;
	--with) sets=$(printf '%s\n' "$2" | tr ',' '\n' | sort -u); shift 2 ;;
	--size) slot_size=$2; shift 2 ;;
	--packages) packages=$2; shift 2 ;;
	--key) key=$2; shift 2 ;;
	--firmware) firmware=yes; shift ;;
	--fresh) fresh=yes; shift ;;
	--fetch) only_fetch=yes; shift ;;
	-h | --help) usage; exit 0 ;;
	*) usage >&2; die "unknown option $1" ;;
	esac
done
[ "$arch" = amd64 ] || die "--arch $arch: the disk image is for amd64; the programs alone are built for others by: make cross"
for set in $sets; do
	[ -e "image/sets/$set" ] || die "--with $set: expected one of: $all_sets"
done
[ "$(id -u)" = 0 ] || die "run as root: it works in a chroot"
if [ -z "$key" ] && [ -z "$only_fetch" ]; then
	key=build/upgrade.key
	[ -e "$key" ] || bin/minne lab keygen "$key"
fi
[ -n "$only_fetch" ] || [ -r "$key" ] || die "--key $key: expected the file that minne lab keygen made"
[ "$slot_size" -ge 64 ] 2>/dev/null || die "--size $slot_size: expected a number of MiB, at least 64"

version=${VERSION:-$(git describe --always --dirty)}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
work=$PWD/build/image/$arch
# with is the name of the sets in those of files: -wifi
with=$(for set in $sets; do printf -- '-%s' "$set"; done)
name=minne-$version$with-$arch
mkdir -p "$work"
exec 9>"$work/lock"
flock 9

say "packages"
fetch_packages
[ -z "$only_fetch" ] || exit 0
say "system"
make_root
make_sets
seal_system
say "disk"
make_disk
say "manifest"
make_manifest
say "compressing"
zstd -q -f -T0 -15 "build/$name.img" -o "build/$name.img.zst"
(cd build && sha256sum "$name.img" "$name.img.zst" "$name.upgrade" "$name".*.json >"$name.sha256")
ln -sfn "$name.img" "build/minne$with.img"
ln -sfn "$name.upgrade" "build/minne$with.upgrade"
say "done"
ls -ls "build/$name.img" "build/$name.img.zst" "build/$name.upgrade" "build/$name.manifest.json"
