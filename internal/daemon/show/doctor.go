// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"

	"minne/internal/base/diagnosis"
)

// DoctorView answers show doctor.
type DoctorView struct {
	diagnosis.Counts
	Checks []diagnosis.Outcome `json:"checks"`
}

// Doctor prints a tree of checks, the most important line first.
func Doctor(w io.Writer, v DoctorView) error {
	switch c := v.Counts; {
	case c.Failed > 0:
		fmt.Fprintf(w, "failed: %d of %d checks; warnings %d, skipped %d\n\n", c.Failed, c.OK+c.Warnings+c.Failed, c.Warnings, c.Skipped)
	case c.Warnings > 0:
		fmt.Fprintf(w, "warning: %d of %d checks; skipped %d\n\n", c.Warnings, c.OK+c.Warnings, c.Skipped)
	default:
		fmt.Fprintf(w, "ok: %d checks; skipped %d\n\n", c.OK, c.Skipped)
	}
	return outcomes(w, v.Checks, "")
}

func outcomes(w io.Writer, list []diagnosis.Outcome, indent string) error {
	for _, o := range list {
		if _, err := fmt.Fprintf(w, "%s%s: %s; %s\n", indent, o.Name, o.Result, o.Text); err != nil {
			return err
		}
		if o.Fix != "" {
			fmt.Fprintf(w, "%s  -> %s\n", indent, strings.ReplaceAll(o.Fix, "\n", "\n"+indent+"     "))
		}
		if err := outcomes(w, o.Then, indent+"  "); err != nil {
			return err
		}
	}
	return nil
}
