# Makes the sets: what not every router needs, each a squashfs of its own that the initramfs lays over the base. What is in one
# says its file below image/sets. Sourced by build.sh.
#
# The packages of all sets are fetched, and the base's list of kernel modules names those of all sets, whichever are built: the
# base is the same beside any of them.

all_sets=$(cd image/sets && echo *)

# set_words prints what stands behind word $2 in the files of set $1, which may be several.
set_words() {
	for s in $1; do words "image/sets/$s" | sed -n "s/^$2  *//p"; done
}

# make_sets makes the trees of the sets that are built, and their squashfs.
make_sets() {
	for set in $sets; do
		tree=$top/stage/set-$set
		mkdir -p "$tree/usr/lib" "$tree/usr/share/minne/sets"
		set_words "$set" file | pick_files "image/sets/$set" "$tree"
		if [ -n "$firmware" ]; then set_words "$set" firmware | pick_files "image/sets/$set" "$tree"; fi
		pick_libraries "$tree"
		set_words "$set" module | find_modules "image/sets/$set" >"$work/modules"
		copy_modules "$tree" <"$work/modules"
		set_words "$set" link | while read -r name what; do
			mkdir -p "$tree/$(dirname "$name")"
			ln -s "$what" "$tree/$name"
		done
		# Files of the base that came along: libraries, modules that others need.
		(cd "$tree" && find . -type f) | while read -r f; do
			if [ -e "$root/$f" ]; then rm "$tree/$f"; fi
		done
		find "$tree" -depth -type d -empty -delete
		mkdir -p "$tree/usr/share/minne/sets"
		set_manifest >"$tree/usr/share/minne/sets/$set.json"
		common_rights "$tree"
		find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
		inside mksquashfs "set-$set" "$set.squashfs" -quiet -no-progress -noappend -comp zstd -Xcompression-level 19 -b 128K \
			-all-root -no-xattrs -no-exports -reproducible
		cp "$tree/usr/share/minne/sets/$set.json" "build/$name.$set.json"
	done
}

# set_manifest writes down what is in the set that is made.
set_manifest() {
	used_packages "$tree" >"$work/packages.used.$set"
	printf '{\n  "set": "%s",\n  "packages": [\n' "$set"
	list_packages "$work/packages.used.$set" | sed -n 's/"in_image": true, //p' | sed '$s/,$//'
	printf '  ],\n  "files": [\n'
	list_files "$tree"
	printf '  ]\n}\n'
}
