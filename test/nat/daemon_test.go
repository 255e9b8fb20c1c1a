// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// daemon is a whole router in the namespace of this process, with the fast path.
type daemon struct {
	program, root string
	process       *exec.Cmd
	log           strings.Builder
}

// What the kernel alone does, all of it once more through the daemon with its fast path.
func TestFastPath(t *testing.T) {
	program := filepath.Join(t.TempDir(), "minne")
	if out, err := exec.Command("go", "build", "-o", program, "minne/cmd/minne").CombinedOutput(); err != nil {
		t.Fatalf("building minne: %v\n%s", err, out)
	}
	for name, try := range map[string]func(*testing.T, *bed){"FTP": tryFTP, "TFTP": tryTFTP, "SIP": trySIP, "one-to-one": tryOneToOne} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.startDaemon(program)
			try(t, b)
			if out, err := b.daemon.command("show", "fast-path").CombinedOutput(); err != nil || !regexp.MustCompile(`wan +native +yes`).Match(out) {
				t.Errorf("the fast path was not there: %v\n%s", err, out)
			}
		})
	}
}

// startDaemon makes the bed a whole router.
func (b *bed) startDaemon(program string) {
	b.t.Helper()
	root, err := os.MkdirTemp("", "minne-nat-") // short enough for a socket's path
	must(b.t, err)
	b.t.Cleanup(func() { _ = os.RemoveAll(root) })
	d := &daemon{program: program, root: root}
	d.process = d.command("daemon")
	d.process.Stderr = &d.log
	must(b.t, d.process.Start())
	b.t.Cleanup(func() {
		_ = d.process.Process.Kill()
		_ = d.process.Wait()
		if out, err := d.command("stop", "--all").CombinedOutput(); err != nil {
			b.t.Errorf("stop --all: %v\n%s", err, out)
		}
		if b.t.Failed() {
			b.t.Logf("log of the daemon:\n%s", d.log.String())
		}
	})
	for range 300 {
		if err = d.command("status").Run(); err == nil {
			b.daemon = d
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatalf("the daemon does not answer: %v", err)
}

func (d *daemon) command(args ...string) *exec.Cmd {
	c := exec.Command(d.program, args...)
	c.Env = append(os.Environ(), "MINNE_ROOT="+d.root, "MINNE_INSTANCE=nat")
	return c
}

func (d *daemon) apply(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(d.root, "nat.yaml")
	must(t, os.WriteFile(file, []byte(text), 0o644))
	if out, err := d.command("apply", file).CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
}

func ethtool(t *testing.T, name string, command, value uint32) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(t, err)
	defer unix.Close(fd)
	argument := struct{ command, value uint32 }{command, value}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		rest [16]byte
	}{data: unsafe.Pointer(&argument)}
	copy(request.name[:], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Fatalf("ethtool %#x on %s: %v", command, name, errno)
	}
}
