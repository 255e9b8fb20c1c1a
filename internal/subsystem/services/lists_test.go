// SPDX-License-Identifier: Apache-2.0

package services

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"minne/internal/subsystem/services/service"
)

var update = flag.Bool("update", false, "write the services' part of the package lists anew")

// Lines around the part of a list that is made here.
const (
	listBegin = "# Services, made by go test ./internal/subsystem/services -update"
	listEnd   = "# End of services"
)

// What installs and packs programs takes those of the services from their descriptors: the image's packages and
// files, what the Debian package suggests, what the tests need.
func TestPackageLists(t *testing.T) {
	each := func(of func(service.Program) []string) (list []string) {
		for _, p := range Programs() {
			for _, word := range of(p) {
				if !slices.Contains(list, word) {
					list = append(list, word)
				}
			}
		}
		return list
	}
	packages := each(func(p service.Program) []string { return []string{p.Package} })
	units := each(func(p service.Program) []string { return strings.Fields(p.Unit) })
	inImage := each(func(p service.Program) []string {
		if len(p.Image) == 0 {
			return nil
		}
		return []string{p.Package}
	})
	var suggests []string
	for _, name := range packages {
		suggests = append(suggests, "  - "+name)
	}
	for file, lines := range map[string][]string{
		"image/packages":      inImage,
		"image/root":          each(func(p service.Program) []string { return p.Image }),
		"packaging/nfpm.yaml": suggests,
		"scripts/install.sh": {`service_packages="` + strings.Join(packages, " ") + `"`,
			`service_units="` + strings.Join(units, " ") + `"`},
	} {
		path := "../../../" + file
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, ok1 := strings.Cut(string(text), listBegin+"\n")
		_, tail, ok2 := strings.Cut(rest, listEnd+"\n")
		if !ok1 || !ok2 {
			t.Errorf("%s: expected the lines %q and %q", file, listBegin, listEnd)
			continue
		}
		want := head + listBegin + "\n" + strings.Join(lines, "\n") + "\n" + listEnd + "\n" + tail
		switch {
		case want == string(text):
		case *update:
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s is not up to date: run go test ./internal/subsystem/services -update", file)
		}
	}
}
