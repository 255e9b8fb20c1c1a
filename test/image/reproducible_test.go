// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReproducible builds the last commit in two fresh clones, by users with other habits, of
// the packages that are here: the images are the same, bit for bit.
func TestReproducible(t *testing.T) {
	const script = `umask $1
		git clone -q "$2" "$3"
		cd "$3"
		mkdir -p build/image/amd64
		cp -a "$2"/build/image/amd64/debian* build/image/amd64/
		mkdir image/overlay/etc/empty
		./dev image --key "$2/build/upgrade.key.pub" >&2
		sha256sum <build/minne.img`
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	build := func(umask, zone string) string {
		t.Helper()
		c := exec.Command("sh", "-euc", script, "sh", umask, top, filepath.Join(t.TempDir(), "tree"))
		c.Env = append(os.Environ(), "TZ="+zone)
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		return strings.TrimSpace(string(out))
	}
	one, other := build("022", "UTC"), build("077", "Asia/Kathmandu")
	if one != other || len(one) < 64 {
		t.Errorf("two images of one commit: %s and %s", one, other)
	}
}
