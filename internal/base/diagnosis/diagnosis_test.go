// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"context"
	"reflect"
	"testing"
)

func says(r Result, text string) func(context.Context) Finding {
	return func(context.Context) Finding { return Finding{Result: r, Text: text} }
}

// What stands below a check that failed is not looked at, and says why; its neighbours are.
func TestRun(t *testing.T) {
	never := func(context.Context) Finding { t.Error("looked at"); return Finding{} }
	got := Run(t.Context(), []Check{
		{"link", says(OK, "up"), []Check{
			{"address", says(Failed, "none"), []Check{{"gateway", never, []Check{{"DNS", never, nil}}}}},
			{"speed", says(Warning, "half duplex"), []Check{{"errors", says(OK, "none"), nil}}},
		}},
		{"NAT", says(Skipped, "off"), []Check{{"pool", never, nil}}},
	})
	want := []Outcome{
		{Name: "link", Result: OK, Text: "up", Then: []Outcome{
			{Name: "address", Result: Failed, Text: "none", Then: []Outcome{
				{Name: "gateway", Result: Skipped, Text: "not checked: address failed", Then: []Outcome{
					{Name: "DNS", Result: Skipped, Text: "not checked: address failed"}}}}},
			{Name: "speed", Result: Warning, Text: "half duplex", Then: []Outcome{{Name: "errors", Result: OK, Text: "none", Then: []Outcome{}}}},
		}},
		{Name: "NAT", Result: Skipped, Text: "off", Then: []Outcome{{Name: "pool", Result: Skipped, Text: "not checked: NAT skipped"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if c := Count(got); c != (Counts{OK: 2, Warnings: 1, Failed: 1, Skipped: 4}) {
		t.Errorf("%+v", c)
	}
}
