// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Follow supervises the programs until ctx ends, and calls look: at once, when a file of one of these names in a
// program's directory may have changed, after Wake, and when the time is over that look returned (0 for none). The
// programs go on behind it.
func (f *Fleet) Follow(ctx context.Context, look func(context.Context) (next time.Duration), files ...string) error {
	changes, err := f.Watch(ctx, files...)
	if err != nil {
		return err
	}
	f.Supervise(ctx)
	close(f.ready)
	for {
		var timer <-chan time.Time
		if next := look(ctx); next > 0 {
			timer = time.After(next)
		}
		select {
		case <-ctx.Done():
			f.Wait()
			return nil
		case <-changes:
		case <-f.wake:
		case <-timer:
		}
	}
}

// Ready is closed once Follow watches the files.
func (f *Fleet) Ready() <-chan struct{} { return f.ready }

// Wake has Follow look soon: something is to be done at another time than before.
func (f *Fleet) Wake() {
	select {
	case f.wake <- struct{}{}:
	default: // it will look already
	}
}

// Read returns the key=value lines of a file that a script wrote into the directory of an interface's program.
func (f *Fleet) Read(name, file string) (map[string]string, error) {
	b, err := os.ReadFile(filepath.Join(Dir(f.runDir, f.prefix+name), file))
	if err != nil {
		return nil, err
	}
	return Values(string(b)), nil
}

// Values are the key=value lines of a text. Other lines are left out.
func Values(text string) map[string]string {
	v := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			v[key] = value
		}
	}
	return v
}
