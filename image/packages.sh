# Fetches the Debian packages that the image is made of, unpacked into $work/debian. Sourced by build.sh.
#
# The mirror is the one that apt uses on this machine; everything is checked with Debian's keys. What an earlier build
# unpacked is used again while the list of packages is the same; a new checkout of the same user takes what another one
# unpacked in the last week.

debian=trixie
# Firmware that is not free, for wired cards. That of the sets stands in their files.
firmware_packages="firmware-realtek firmware-bnx2 firmware-bnx2x"
firmware_files="usr/lib/firmware/rtl_nic usr/lib/firmware/bnx2*"

# package_words prints the names in image/packages and in the files of the sets, with versions where a manifest pins them.
package_words() {
	words image/packages
	set_words "$all_sets" package
	if [ -n "$firmware" ]; then { printf '%s\n' $firmware_packages; set_words "$all_sets" unfree; } | sort -u; fi
	if [ -n "$packages" ]; then
		sed -n 's/^ *{"package": "\([^"]*\)", "version": "\([^"]*\)".*/\1=\2/p' "$packages"
	fi
}

fetch_packages() {
	wanted=$(package_words)
	if [ -z "$fresh" ] && [ "$(cat "$work/debian.words" 2>/dev/null)" = "$wanted" ]; then return 0; fi
	kept=${XDG_CACHE_HOME:-$HOME/.cache}/minne/image-packages
	list=$kept/$arch-$(printf '%s\n' "$wanted" | sha256sum | cut -c-16).tar
	rm -rf "$work/debian" "$work/debian.words"
	if [ -z "$fresh" ] && [ -n "$(find "$list" -mtime -7 2>/dev/null)" ] && tar -xf "$list" -C "$work"; then return 0; fi
	# shellcheck disable=SC2016 # apt expands it
	mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -v security | head -n 1)
	[ -n "$mirror" ] || die "apt has no package mirror configured; run apt-get update"
	parts=main
	[ -z "$firmware" ] || parts="main non-free-firmware"
	rm -rf "$work/debian"
	signed="signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
	mmdebstrap --quiet --mode=root --variant=extract --architectures="$arch" --skip=cleanup/apt \
		--include="$(echo "$wanted" | paste -sd,)" "$debian" "$work/debian" \
		"deb [$signed] $mirror $debian $parts" "deb [$signed] $mirror $debian-updates $parts" >"$work/packages.log" 2>&1 ||
		{ tail -n 20 "$work/packages.log" >&2; die "the packages could not be fetched (log: $work/packages.log)"; }
	for d in "$work"/debian/var/cache/apt/archives/*.deb; do
		printf '%s %s\n' "$(sha256sum "$d" | cut -d' ' -f1)" "$(dpkg-deb -W --showformat='${Package} ${Version}' "$d")"
	done | sort -k2 >"$work/debian.packages"
	for d in "$work"/debian/var/cache/apt/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$d" | tar -t | sed "s,^\./,,; s,^lib,usr/lib,; s,^,$(dpkg-deb -f "$d" Package) ,"
	done >"$work/debian.files"
	rm -f "$work"/debian/var/cache/apt/archives/*.deb
	rm -rf "$work/debian/var/lib/apt/lists"
	for l in bin sbin lib lib64; do
		if [ ! -e "$work/debian/$l" ]; then ln -s "usr/$l" "$work/debian/$l"; fi
	done
	printf '%s\n' "$wanted" >"$work/debian.words"
	mkdir -p "$kept"
	find "$kept" -name '*.tar*' -mtime +6 -delete
	tar -cf "$list.$$" -C "$work" debian debian.packages debian.files debian.words
	mv "$list.$$" "$list"
}

# inside runs a program of the unpacked Debian. Its working directory is $work/debian/stage.
inside() {
	chroot "$work/debian" /usr/bin/env -i PATH=/usr/sbin:/usr/bin LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
		MTOOLS_SKIP_CHECK=1 busybox sh -ec 'cd /stage; "$@"' inside "$@"
}

# make_manifest writes down what is in the image. A package's licences are the names in its copyright file.
make_manifest() {
	{
		printf '{\n  "version": "%s",\n  "arch": "%s",\n  "built": "%s",\n  "commit": "%s",\n  "debian": "%s",\n  "kernel": "%s",\n' \
			"$version" "$arch" "$(stamp)" "$(git rev-parse HEAD)" "$debian" "$kernel"
		printf '  "system": {"size": %s, "sha256": "%s"},\n  "sets": [%s],\n  "packages": [\n' "$system_size" "$system_sha256" \
			"$(for set in $sets; do printf '"%s"\n' "$set"; done | paste -sd, | sed 's/,/, /g')"
		list_packages "$work/packages.used" | sed '$s/,$//'
		printf '  ],\n  "files": [\n'
		list_files "$root"
		printf '  ]\n}\n'
	} >"build/$name.manifest.json"
}

# list_packages prints all packages that were fetched as JSON, a line each. Those whose names are in file $1 are in the image.
list_packages() {
	while read -r hash package number; do
		grep -qx "$package" "$1" && used=true || used=false
		printf '    {"package": "%s", "version": "%s", "sha256": "%s", "in_image": %s, "licences": [%s]},\n' \
			"$package" "$number" "$hash" "$used" "$(licences "$package")"
	done <"$work/debian.packages"
}

# list_files prints the files in $1 with their hashes as JSON.
list_files() {
	(cd "$1" && find . -type f -printf '%P\n' | sort | xargs -d '\n' sha256sum) |
		sed 's/^\([0-9a-f]*\)  \(.*\)/    {"path": "\/\2", "sha256": "\1"},/' | sed '$s/,$//'
}

# licences prints the licences of a package as JSON strings.
licences() {
	sed -n 's/^License: *//p' "$work/debian/usr/share/doc/$1/copyright" 2>/dev/null |
		tr -d '"\\\r' | grep . | sort -u | sed 's/.*/"&"/' | paste -sd, | sed 's/,/, /g'
}

# stamp prints the time of the commit as RFC 3339 has it.
stamp() { date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ; }
