#!/bin/sh
# Prints the packages whose tests need no root: they make no namespace, load no program and start no machine. `./dev check`
# runs them. Left out besides: what compiles for other processors, or compares with libraries that only `./dev test` installs.
set -eu
go=${GO:-go}
needs_root='^minne/internal/testing/(testns|testuml|testimage)$|^github.com/cilium/ebpf$|^github.com/vishvananda/netns$'
tested=$("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)
for package in $tested; do
	case $package in minne/internal/lab/platform/* | minne/test/deb | minne/test/procbench) continue ;; esac
	deps=$("$go" list -test -deps -f '{{.ImportPath}}' "$package")
	printf '%s\n' "$deps" | grep -qE "$needs_root" || echo "$package"
done
