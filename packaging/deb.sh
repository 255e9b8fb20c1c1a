#!/bin/sh
# Builds the Debian package of this commit, bit for bit the same each time:
#
#	./dev deb [--version V] [--output DIR]
#
# The version follows from the commit; SOURCE_DATE_EPOCH, when it is not set, too.
set -eu
cd "$(dirname "$0")/.."
nfpm_version=v2.43.0 # in the checksum database of Go; not in go.mod, as nothing is linked with it

die() { printf 'deb: %s\n' "$*" >&2; exit 1; }

version=
output=build/deb
while [ $# -gt 0 ]; do
	case $1 in
	--version) version=${2:?} ;;
	--output) output=${2:?} ;;
	*) die "unknown argument '$1': expected --version V or --output DIR" ;;
	esac
	shift 2
done

export CGO_ENABLED=0 # static: it runs on every Debian
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# A tag v1.2 is version 1.2; commits behind it are later, those before any tag earlier than all.
if [ -z "$version" ]; then
	if tag=$(git describe --tags --match 'v[0-9]*' --abbrev=9 2>/dev/null); then
		version=$(printf '%s' "${tag#v}" | tr - +)
	else
		version="0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d.%H%M%S).$(git rev-parse --short=9 HEAD)"
	fi
	[ -z "$(git status --porcelain --untracked-files=no)" ] || version="$version+dirty"
fi
dpkg --validate-version "$version" || die "version '$version' is none that dpkg takes"

nfpm=build/tools/nfpm-$nfpm_version
if [ ! -x "$nfpm" ]; then
	echo "building nfpm $nfpm_version"
	GOBIN=$PWD/build/tools go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version"
	mv build/tools/nfpm "$nfpm"
fi

STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT
go build -trimpath -buildvcs=false -o "$STAGE/minne" \
	-ldflags "-s -w -X main.release=$version -X main.commit=$(git rev-parse HEAD)" ./cmd/minne
"$STAGE/minne" completion bash >"$STAGE/minne.bash"
"$STAGE/minne" completion zsh >"$STAGE/_minne"
"$STAGE/minne" completion fish >"$STAGE/minne.fish"
go run ./packaging/manpage -version "$version" -date "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)" \
	<docs/reference/commands.md | gzip -9n >"$STAGE/minne.8.gz"
{
	cat packaging/copyright
	sed 's/^$/./; s/^/ /' LICENSES/BSD-2-Clause.txt
} >"$STAGE/copyright"
MAINTAINER="Minne maintainers <maintainers@minne.invalid>"
{
	printf 'minne (%s) unstable; urgency=medium\n\n  * Built from commit %s.\n\n' "$version" "$(git rev-parse HEAD)"
	printf ' -- %s  %s\n' "$MAINTAINER" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$STAGE/changelog.gz"
find "$STAGE" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +

ARCH=$(dpkg --print-architecture)
VERSION=$version
export SOURCE_DATE_EPOCH STAGE ARCH VERSION MAINTAINER
mkdir -p "$output"
file=$output/minne_${version}_$ARCH.deb
said=$("$nfpm" package --config packaging/nfpm.yaml --packager deb --target "$file" 2>&1) || die "$said"
echo "$file"
