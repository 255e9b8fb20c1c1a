# Picks the router's system out of the unpacked packages and makes its squashfs. Sourced by build.sh.
#
# The system is what image/root and image/modules name, what these need, and image/overlay on top. Nothing of Debian's
# maintainer scripts runs: users, directories and settings are those of the overlay. GRUB reads kernel and initramfs out of the
# squashfs, so its compression is one that GRUB knows; gzip costs 3 MB more than xz here and is read several times as fast.

# words prints the lines of a list without comments.
words() { sed 's/#.*//; s/[[:space:]]*$//; /^$/d' "$1"; }

make_root() {
	top=$work/debian
	root=$top/stage/root
	rm -rf "$top/stage"
	mkdir -p "$root"
	kernel=$(basename "$top"/usr/lib/modules/*)
	for d in usr/bin usr/sbin usr/lib usr/lib64 etc boot dev proc sys run tmp var root config mnt; do mkdir -p "$root/$d"; done
	for l in bin sbin lib lib64; do ln -s "usr/$l" "$root/$l"; done
	words image/root | pick_files image/root "$root"
	pick_libraries "$root"
	pick_modules
	busybox_links
	certificates
	own_files
	used_packages "$root" >"$work/packages.used"
	initramfs
	make_base
}

# pick_files copies the files on its input to $2; $1 is the list that they stand in. A name that matches nothing is an error: the
# list would lie.
pick_files() {
	while read -r pattern; do
		found=
		for f in "$top"/$pattern; do
			[ -e "$f" ] || continue
			found=yes
			path=${f#"$top"/}
			mkdir -p "$2/$(dirname "$path")"
			cp -a "$f" "$2/$(dirname "$path")/"
		done
		[ -n "$found" ] || die "$1: no file matches $pattern"
	done || exit 1
}

# pick_libraries copies the libraries of every program in $1 there, and theirs, as the dynamic linker finds them.
pick_libraries() {
	mkdir -p "$1/usr/lib/x86_64-linux-gnu" "$1/usr/lib64"
	cp -L "$top/usr/lib64/ld-linux-x86-64.so.2" "$1/usr/lib64/"
	find "$1" -type f \( -perm -100 -o -name '*.so*' \) -printf '%P\n' | sort | while read -r f; do
		chroot "$top" /usr/lib64/ld-linux-x86-64.so.2 --list "/$f" 2>/dev/null || :
	done | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | while read -r lib; do
		mkdir -p "$1/usr$(dirname "${lib#/usr}")"
		cp -L "$top$lib" "$1/usr${lib#/usr}"
	done
}

# pick_modules copies the modules that image/modules names and those they depend on, packed by xz as Debian has them. The list by
# which modprobe finds them names those of all sets too, built or not.
pick_modules() {
	all=usr/lib/modules/$kernel
	index=$top/stage/index
	mkdir -p "$root/$all" "$index/$all"
	ln -s usr/lib "$index/lib"
	inside depmod -b / "$kernel"
	words image/modules | sed 's/^initramfs: *//' | find_modules image/modules >"$work/modules"
	copy_modules "$root" <"$work/modules"
	copy_modules "$index" <"$work/modules"
	set_words "$all_sets" module | find_modules image/sets >"$work/modules"
	copy_modules "$index" <"$work/modules"
	for d in "$root" "$index"; do
		for f in builtin builtin.modinfo order; do cp "$top/$all/modules.$f" "$d/$all/"; done
	done
	inside depmod -b /stage/index "$kernel"
	cp "$index/$all"/modules.* "$root/$all/"
	rm -rf "$index"
}

# find_modules prints the modules that the patterns on its input match; $1 is the list that they stand in.
find_modules() {
	while read -r pattern; do
		found=
		for f in "$top/$all"/kernel/$pattern.ko.xz; do
			[ -e "$f" ] || continue
			found=yes
			printf '%s\n' "${f#"$top/$all"/}"
		done
		[ -n "$found" ] || die "$1: no module matches $pattern"
	done || exit 1
}

# copy_modules copies the modules on its input, and those they depend on, to $1.
copy_modules() {
	with_dependencies "$top/$all/modules.dep" | while read -r m; do
		mkdir -p "$1/$all/$(dirname "$m")"
		cp "$top/$all/$m" "$1/$all/$m"
	done
}

# with_dependencies reads modules and prints them with all that they need, by modules.dep in $1 (which lists them fully).
with_dependencies() {
	awk 'NR == FNR { m = $1; sub(/:$/, "", m); needs[m] = $0; sub(/^[^:]*:/, "", needs[m]); next }
		{ print; n = split(needs[$1], d, " "); for (i = 1; i <= n; i++) print d[i] }' "$1" - | sort -u
}

busybox_links() {
	chroot "$top" /usr/bin/busybox --list | while read -r tool; do
		case $tool in busybox | sh | ar | dpkg | dpkg-deb | rpm | rpm2cpio | ftpget | ftpput | telnetd | httpd | tftp | udhcpd) continue ;; esac
		for d in bin sbin; do [ ! -e "$root/usr/$d/$tool" ] || continue 2; done
		ln -s busybox "$root/usr/bin/$tool"
	done
	for tool in modprobe insmod rmmod lsmod depmod modinfo; do
		rm -f "$root/usr/bin/$tool"
		ln -s ../bin/kmod "$root/usr/sbin/$tool"
	done
	ln -sf ../bin/busybox "$root/usr/sbin/init"
	ln -s bash "$root/usr/bin/sh"
}

certificates() {
	mkdir -p "$root/etc/ssl/certs"
	find "$top/usr/share/ca-certificates" -name '*.crt' | sort | xargs cat >"$root/etc/ssl/certs/ca-certificates.crt"
}

# own_files adds Minne and the overlay.
own_files() {
	cp bin/minne "$root/usr/sbin/minne"
	# Files and links only: git knows no empty directories, so they may differ between checkouts.
	(cd image/overlay && find . ! -type d -exec cp -P --parents -t "$root" {} +)
	mkdir -p "$root/usr/lib/minne" "$root/usr/share/minne"
	cp LICENSE "$root/usr/share/minne/"
	mkdir -p "$root/usr/share/bash-completion/completions"
	bin/minne completion bash >"$root/usr/share/bash-completion/completions/minne"
	printf '{"version":"%s","arch":"%s","built":"%s"}\n' "$version" "$arch" "$(stamp)" >"$root/usr/lib/minne/release.json"
	mkdir -p "$root/usr/share/minne/upgrade-keys"
	if grep -q 'PUBLIC KEY' "$key"; then public=-pubin; else public=; fi
	openssl pkey $public -in "$key" -pubout -out "$root/usr/share/minne/upgrade-keys/image.pub" || die "--key $key: not a key in PEM"
	cp "$top/boot/vmlinuz-$kernel" "$root/boot/vmlinuz"
	if [ -n "$firmware" ]; then printf '%s\n' $firmware_files | pick_files image/packages.sh "$root"; fi
	common_rights "$root"
	chmod 600 "$root/etc/shadow"
	chmod 1777 "$root/tmp"
	chmod 700 "$root/root"
	for ours in usr/sbin/minne usr/lib/minne/daemon usr/lib/minne/console usr/lib/minne/trial usr/lib/minne/help usr/lib/minne/medium; do chmod 755 "$root/$ours"; done
}

# common_rights gives all files of $1 the same rights: nobody gets more by a set-user-id bit.
common_rights() {
	find "$1" -type d -exec chmod u=rwx,go=rx {} +
	find "$1" -type f -perm -u=x -exec chmod 755 {} +
	find "$1" -type f ! -perm -u=x -exec chmod 644 {} +
	chown -R 0:0 "$1"
}

# used_packages prints which packages something in $1 comes from.
used_packages() {
	(cd "$1" && find . -type f -printf '%P\n' && if [ -e boot/vmlinuz ]; then echo "boot/vmlinuz-$kernel"; fi) |
		awk 'NR == FNR { ours[$0]; next } $2 in ours { print $1 }' - "$work/debian.files" | sort -u
}

# initramfs makes boot/initrd: busybox, modules up to the disk, and the script that finds, checks and mounts the system.
initramfs() {
	first=$top/stage/initramfs
	mods=usr/lib/modules/$kernel
	for d in bin dev proc sys run root ram mnt layers; do mkdir -p "$first/$d"; done
	mkdir -p "$first/$mods"
	ln -s usr/lib "$first/lib"
	cp "$root/usr/bin/busybox" "$first/bin/"
	cp image/initramfs/init "$first/init"
	chmod 755 "$first/init"
	ln -s busybox "$first/bin/sh"
	words image/modules | sed -n 's/^initramfs: *//p' | while read -r pattern; do
		for f in "$root/$mods"/kernel/$pattern.ko.xz; do printf '%s\n' "${f#"$root/$mods"/}"; done
	done | with_dependencies "$root/$mods/modules.dep" | while read -r m; do
		mkdir -p "$first/$mods/$(dirname "$m")"
		xz -dc "$root/$mods/$m" >"$first/$mods/${m%.xz}"
	done
	for f in builtin builtin.modinfo; do cp "$root/$mods/modules.$f" "$first/$mods/"; done
	sed 's/\.ko\.xz$/.ko/' "$root/$mods/modules.order" >"$first/$mods/modules.order"
	inside depmod -b /stage/initramfs "$kernel"
	chown -R 0:0 "$first"
	find "$first" "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	(cd "$first" && find . | sort | inside_cpio) | zstd -q -19 >"$root/boot/initrd"
	(cd "$root" && sha256sum boot/vmlinuz boot/initrd) >"$root/boot/SHA256SUMS"
}

# inside_cpio packs the names on its input, which are below /stage/initramfs. --reproducible: no inode numbers of this disk.
inside_cpio() {
	chroot "$top" /usr/bin/env -i PATH=/usr/bin LC_ALL=C busybox sh -c 'cd /stage/initramfs && cpio --quiet --reproducible -o -H newc -R 0:0'
}

# make_base makes the squashfs of the base, and tells what it weighs.
make_base() {
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	inside mksquashfs root base.squashfs -quiet -no-progress -noappend -comp gzip -Xcompression-level 9 -b 128K \
		-all-root -no-xattrs -no-exports -reproducible
	base_size=$(stat -c %s "$top/stage/base.squashfs")
	weigh base "$base_size"
	[ "$base_size" -le "$base_limit" ] || say "the base is over its limit of $(tenths "$base_limit") MB: make a set of what not every router needs"
}

# seal_system makes the upgrade file: base, sets and trailer.
seal_system() {
	layers=base=$top/stage/base.squashfs
	for set in $sets; do
		layers="$layers $set=$top/stage/$set.squashfs"
		weigh "$set" "$(stat -c %s "$top/stage/$set.squashfs")"
	done
	# shellcheck disable=SC2086 # names of files without blanks
	go run ./image/seal -version "$version" -arch "$arch" -built "$(stamp)" -key "$key" "build/$name.upgrade" "$top/stage/trailer" $layers
	system_size=$(($(stat -c %s "build/$name.upgrade") - 4096))
	system_sha256=$(head -c "$system_size" "build/$name.upgrade" | sha256sum | cut -d' ' -f1)
	least=$((system_size / 1048576 + 1)) # the trailer comes behind it
	[ "$least" -le "$slot_size" ] || die "the system needs $least MiB, a slot has $slot_size: --size $((least * 3 / 2)) leaves room for later ones"
}

# weigh tells the size of $1, which is $2 bytes.
weigh() { say "$1: $(tenths "$2") MB"; }

# tenths prints bytes as MB (of 10^6 bytes) with one decimal, rounded up.
tenths() { echo "$((($1 + 99999) / 1000000)).$((($1 + 99999) / 100000 % 10))"; }
