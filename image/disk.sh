# Makes the disk image out of the sealed system: GPT, GRUB for BIOS and UEFI, the empty second slot and the configuration's
# file system. Sourced by build.sh. Everything is written into files; no loop device, no mount.
#
#	1 minne-bios     1 MiB   GRUB's core for BIOS, which sector 0 loads by its number
#	2 minne-esp    128 MiB   FAT: GRUB for UEFI; files that people exchange with the router, among them an upgrade
#	3 minne-state    1 MiB   which slot to boot: a GRUB environment block in a tar archive, which GRUB takes for a file
#	4 minne-a        --size  the system
#	5 minne-b        --size  room for the next one
#	6 minne-config  64 MiB   ext4: configuration, secrets, revisions

esp_size=128 config_size=64
mib=1048576

make_disk() {
	tar_same="--format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mode=644 --mtime=@$SOURCE_DATE_EPOCH"
	dir=$top/stage
	disk=$dir/disk.img
	rm -f "$disk"
	truncate -s $(((1 + 1 + esp_size + 1 + 2 * slot_size + config_size + 1) * mib)) "$disk"
	partitions
	grub
	file_systems
	place 2 "$dir/esp.img"
	place 3 "$dir/state.img"
	head -c "$system_size" "build/$name.upgrade" >"$dir/system"
	place 4 "$dir/system"
	trailer=$((slot_size * mib - 4096))
	dd if="$dir/trailer" of="$disk" bs=4096 seek=$(((${start_4} * mib + trailer) / 4096)) conv=notrunc status=none
	place 6 "$dir/config.img"
	mv "$disk" "build/$name.img"
}

# partitions writes the GPT. Its identifiers are fixed: a random one would make every build another.
partitions() {
	uid=4d494e4e-4500-4000-8000-00000000000
	inside sgdisk disk.img --clear --disk-guid="${uid}0" >/dev/null
	at=1
	add_partition 1 1 bios ef02
	add_partition 2 "$esp_size" esp ef00
	add_partition 3 1 state 8300
	add_partition 4 "$slot_size" a 8300
	add_partition 5 "$slot_size" b 8300
	add_partition 6 "$config_size" config 8300
}

# add_partition makes partition number $1 of $2 MiB, with name minne-$3 and type $4. Where it begins, in MiB, is start_$1.
add_partition() {
	inside sgdisk disk.img --set-alignment=2048 --new="$1:$((at * 2048)):$(((at + $2) * 2048 - 1))" --typecode="$1:$4" \
		--change-name="$1:minne-$3" --partition-guid="$1:$uid$1" >/dev/null
	eval "start_$1=$at"
	at=$((at + $2))
}

# place writes file $2 to the start of partition $1. Zeros are left out: the file is made of holes.
place() {
	eval "start=\$start_$1"
	dd if="$2" of="$disk" bs=1M seek="$start" conv=notrunc,sparse status=none
}

# grub makes both of GRUB's cores. The configuration is inside them, so that a damaged FAT stops no BIOS from booting.
grub() {
	mkdir -p "$dir/memdisk/boot/grub"
	cp image/grub.cfg "$dir/memdisk/boot/grub/grub.cfg"
	# shellcheck disable=SC2086 # options
	tar -C "$dir/memdisk" $tar_same -cf "$dir/memdisk.tar" boot
	# The disk that the machine started from, before anything else looks like one.
	printf 'set disk=$root\nset prefix=(memdisk)/boot/grub\n' >"$dir/early.cfg"
	both="memdisk tar normal part_gpt squash4 gzio linux loadenv regexp test echo sleep configfile hashsum gcry_sha256 serial terminal halt reboot true minicmd read keystatus probe"
	# shellcheck disable=SC2086 # lists of words
	{
		inside grub-mkimage -O i386-pc -m memdisk.tar -c early.cfg -p /boot/grub -o core.img biosdisk $both
		inside grub-mkimage -O x86_64-efi -m memdisk.tar -c early.cfg -p /boot/grub -o bootx64.efi fat efi_gop efi_uga video_bochs all_video $both
	}
	bios_core
}

# bios_core puts core.img into partition 1 and its address into the two places that want it: sector 0 (boot.img) loads the
# core's first sector, and that one (diskboot.img) the rest. Both fields are sector numbers of 8 bytes, little endian.
bios_core() {
	sector=$((start_1 * 2048))
	[ "$(stat -c %s "$dir/core.img")" -le $mib ] || die "GRUB's core for BIOS does not fit into 1 MiB"
	dd if="$top/usr/lib/grub/i386-pc/boot.img" of="$disk" bs=440 count=1 conv=notrunc status=none
	little_endian $sector | dd of="$disk" bs=1 seek=$((0x5c)) conv=notrunc status=none
	place 1 "$dir/core.img"
	little_endian $((sector + 1)) | dd of="$disk" bs=1 seek=$((sector * 512 + 0x1f4)) conv=notrunc status=none
}

little_endian() {
	n=$1
	for _ in 1 2 3 4 5 6 7 8; do
		# shellcheck disable=SC2059 # the format is the byte
		printf "\\$(printf %03o $((n & 255)))"
		n=$((n >> 8))
	done
}

file_systems() {
	cp image/esp-readme.txt "$dir/README.TXT"
	touch -d "@$SOURCE_DATE_EPOCH" "$dir/README.TXT" "$dir/bootx64.efi"
	truncate -s $((esp_size * mib)) "$dir/esp.img"
	inside mkfs.vfat --invariant -F 32 -s 1 -n MINNE -i 4d494e4e esp.img >/dev/null
	inside mmd -i esp.img ::/EFI ::/EFI/BOOT
	inside mcopy -m -i esp.img bootx64.efi ::/EFI/BOOT/BOOTX64.EFI
	inside mcopy -m -i esp.img README.TXT ::/README.TXT
	{ printf '# GRUB Environment Block\nslot=a\ntry=\nfailed=\n'; head -c 1024 /dev/zero | tr '\0' '#'; } | head -c 1024 >"$dir/state"
	tar -C "$dir" $tar_same -cf "$dir/state.img" state
	mkdir -p "$dir/config/etc/minne" "$dir/config/var/lib/minne"
	chmod 755 "$dir/config" "$dir/config/etc" "$dir/config/var" "$dir/config/var/lib" "$dir/config/etc/minne"
	chmod 750 "$dir/config/var/lib/minne"
	find "$dir/config" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
	truncate -s $((config_size * mib)) "$dir/config.img"
	inside mke2fs -q -t ext4 -L minne-config -U 4d494e4e-4500-4000-8000-000000000006 -m 0 -J size=8 -I 256 \
		-O ^orphan_file,^resize_inode -E hash_seed=4d494e4e-4500-4000-8000-000000000007,root_owner=0:0,lazy_itable_init=0 -d config config.img
}
