// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// releaseFile is what the image was built as.
const releaseFile = "/usr/lib/minne/release.json"

// Release is what a system was built as.
type Release struct {
	Version string    `json:"version"`
	Arch    string    `json:"arch"`
	Built   time.Time `json:"built"`
	Schema  int       `json:"schema"`
}

// ReadRelease reads the release of the running image.
func ReadRelease() (Release, error) {
	text, err := os.ReadFile(releaseFile)
	if err != nil {
		return Release{}, err
	}
	var r Release
	if err := json.Unmarshal(text, &r); err != nil {
		return Release{}, fmt.Errorf("%s: %w", releaseFile, err)
	}
	return r, nil
}

// farAhead is how long after its build a system may think that it runs.
const farAhead = 20 * 365 * 24 * time.Hour

// clock corrects a clock that can't be right. The kernel has set it from the
// machine's own clock; one with a flat battery says 1970, or 2000, or 2099. Time
// servers do the rest later. What was right is left alone.
func clock(_ context.Context, r *Report) error {
	release, err := ReadRelease()
	if err != nil {
		return err
	}
	now := time.Now()
	right, wrong := corrected(now, release.Built)
	if !wrong {
		return nil
	}
	t := unix.NsecToTimeval(right.UnixNano())
	if err := unix.Settimeofday(&t); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	r.warn("the clock showed %s; it is set to the build time of this system, %s, until a time server answers",
		now.UTC().Format(time.RFC3339), right.UTC().Format(time.RFC3339))
	return nil
}

// corrected returns the time to set when now can't be right for a system of that age.
func corrected(now, built time.Time) (right time.Time, wrong bool) {
	if now.Before(built) || now.After(built.Add(farAhead)) {
		return built, true
	}
	return now, false
}
