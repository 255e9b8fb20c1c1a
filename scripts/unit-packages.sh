#!/bin/sh
# Prints the packages whose tests need no root: they make no namespace, load no program and start no machine. `./dev check`
# runs them. Left out besides: what compiles for other processors, or compares with libraries that only `./dev test` installs.
set -eu
go=${GO:-go}
needs_root='^minne/internal/testing/(testns|testuml|testimage)$|^github.com/cilium/ebpf$|^github.com/vishvananda/netns$'
# One line for each test program: the package, and all that is linked into the program.
"$go" list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{range .Deps}}{{.}} {{end}}{{end}}' ./... |
while read -r program linked; do
	case $program in
	minne/internal/lab/platform/* | minne/test/deb.test | minne/test/procbench.test) continue ;;
	*.test) printf '%s\n' "$linked" | tr ' ' '\n' | grep -qE "$needs_root" || echo "${program%.test}" ;;
	esac
done
