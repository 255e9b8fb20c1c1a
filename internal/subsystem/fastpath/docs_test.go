// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestDesignHasTheNamesOfTheCode: docs/design/fast-path.md calls stages and tables what bpf/ calls them, and
// knows how large they are.
func TestDesignHasTheNamesOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../../../docs/design/fast-path.md")
	must(t, err)
	spec, err := loadRouter()
	must(t, err)

	var stages *btf.Enum
	must(t, spec.Types.TypeByName("stage", &stages))
	var code, words, told []string
	for _, v := range stages.Values[:len(stages.Values)-1] { // the last is their number
		code = append(code, strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(v.Name, "STAGE_"), "_", " ")))
	}
	for _, w := range stageTexts {
		words = append(words, w.name)
	}
	for _, m := range regexp.MustCompile(`(?m)^\d+\. \*\*(.+?)\*\*`).FindAllStringSubmatch(string(text), -1) {
		told = append(told, m[1])
	}
	if !slices.Equal(code, words) || !slices.Equal(code, told) {
		t.Errorf("stages in bpf/stages.h: %q\nin stages.go:          %q\nin the document:       %q", code, words, told)
	}

	_, tables, _ := strings.Cut(string(text), "\n## Tables\n")
	tables, _, _ = strings.Cut(tables, "\n## ")
	size := regexp.MustCompile(`^(?:(\d+) k × )?(\d+) B$`)
	rows := 0
	for line := range strings.Lines(tables) {
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || !strings.Contains(cells[0], "`") {
			continue
		}
		rows++
		for _, m := range regexp.MustCompile("`([^`…]+)(…?)`").FindAllStringSubmatch(cells[0], -1) {
			found := false
			for name, table := range spec.Maps {
				if name != m[1] && !(m[2] != "" && strings.HasPrefix(name, m[1])) {
					continue
				}
				found = true
				if of := size.FindStringSubmatch(cells[2]); of != nil {
					entries, _ := strconv.Atoi(of[1]) // none said is one
					bytes, _ := strconv.Atoi(of[2])
					if int(table.MaxEntries) != max(entries<<10, 1) || int(table.ValueSize) != bytes {
						t.Errorf("%s has %d entries of %d bytes, the document says %s", name, table.MaxEntries, table.ValueSize, cells[2])
					}
				}
			}
			if !found {
				t.Errorf("the document has a table %s, the program has none", m[0])
			}
		}
	}
	if rows < 15 {
		t.Errorf("only %d rows of tables are seen: the test sees nothing", rows)
	}
}
