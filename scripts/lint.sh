#!/bin/sh
# House rules that a machine can check. Prints every breach, then fails.
set -eu
go=${GO:-go}
bad=$(mktemp)
trap 'rm -f "$bad"' EXIT

sources=$(git ls-files --cached --others --exclude-standard '*.go' '*.c' '*.h' '*.sh' dev)
go_sources=$(printf '%s\n' "$sources" | grep '\.go$' || :)

# shellcheck disable=SC2086 # lists of words
{
	"$("$go" env GOROOT)/bin/gofmt" -l $go_sources | sed 's/$/: not gofmt-ed/'
	grep -nwE 'TODO|FIXME|XXX' $sources | grep -v '^scripts/lint.sh' | sed 's/^/unfinished: /' || :
	grep -nE '\bt\.Skip(f|Now)?\(' $go_sources | sed 's/^/a test that skips: /' || :
	for f in $sources; do
		lines=$(wc -l <"$f")
		[ "$lines" -le 700 ] || echo "$f: $lines lines: probably two ideas"
	done
} >"$bad"
if [ -s "$bad" ]; then cat "$bad" >&2; exit 1; fi
"$go" vet ./...
# shellcheck disable=SC2086,SC2046 # lists of words
shellcheck --severity=warning $(grep -slE '^#!/bin/sh' $(git ls-files --cached --others --exclude-standard | grep -v '\.go$') 2>/dev/null)
"${staticcheck:?is set by ./dev, which fetches it: run ./dev lint}" ./...
