// SPDX-License-Identifier: Apache-2.0

//go:build arch

package arch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// archive is a file system in memory as the kernel takes it: cpio, "newc" (Documentation/driver-api/early-userspace/buffer-format).
type archive struct {
	w    bytes.Buffer
	inos int
}

func (a *archive) add(name string, mode uint32, content []byte) {
	a.inos++
	fmt.Fprintf(&a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inos, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	a.pad()
	a.w.Write(content)
	a.pad()
}

func (a *archive) pad() {
	for a.w.Len()%4 != 0 {
		a.w.WriteByte(0)
	}
}

func (a *archive) directories(names ...string) {
	for _, n := range names {
		a.add(n, 0o040755, nil)
	}
}

func (a *archive) write(t *testing.T, file string) {
	t.Helper()
	a.add("TRAILER!!!", 0, nil)
	if err := os.WriteFile(file, a.w.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// initScript prepares the machine and becomes the agent.
const initScript = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t bpf bpf /sys/fs/bpf || echo "init: this kernel has no bpf file system"
mount -t tmpfs tmpfs /run
while read module; do insmod "/modules/$module" || echo "init: $module can't be loaded"; done </modules/list
%s
ip link set lo up
port=
while [ -z "$port" ]; do
	for p in /sys/class/virtio-ports/*; do
		if [ "$(cat "$p/name" 2>/dev/null)" = ` + agentPort + ` ]; then port=${p##*/}; fi
	done
	[ -n "$port" ] || sleep 0.2
done
%s /bin/minne lab guest agent "/dev/$port"
poweroff -f
`

// initramfs writes a file system with minne, busybox and the kernel's modules. Before the agent runs, prepare is; chroot is the
// command that the agent runs under, if any.
func initramfs(t *testing.T, file, kernel, minne, prepare, chroot string, modules []string) {
	t.Helper()
	var a archive
	a.directories("bin", "dev", "etc", "modules", "proc", "run", "sys", "tmp", "root", "var", "var/lib")
	a.add("dev/console", 0o020600, nil) // replaced by devtmpfs, if the kernel has it
	a.add("init", 0o100755, fmt.Appendf(nil, initScript, prepare, chroot))
	for name, from := range map[string]string{"bin/busybox": filepath.Join(kernel, "busybox"), "bin/minne": minne} {
		if from == "" {
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		a.add(name, 0o100755, content)
	}
	var list []string
	for _, path := range modulePaths(t, filepath.Join(kernel, "modules"), modules) {
		name := strings.TrimSuffix(filepath.Base(path), ".xz")
		list = append(list, name)
		a.add("modules/"+name, 0o100644, unpacked(t, path))
	}
	a.add("modules/list", 0o100644, []byte(strings.Join(list, "\n")+"\n"))
	a.write(t, file)
}

// modulePaths returns the files of modules, each behind those that it needs. A module that is not among them is part of the kernel.
func modulePaths(t *testing.T, dir string, names []string) (paths []string) {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for line := range strings.Lines(string(index)) {
			file, needed, _ := strings.Cut(line, ":")
			base, _, _ := strings.Cut(filepath.Base(file), ".")
			if base != name {
				continue
			}
			files := append([]string{file}, strings.Fields(needed)...)
			slices.Reverse(files)
			for _, f := range files {
				if path := filepath.Join(dir, f); !slices.Contains(paths, path) {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths
}

// unpacked returns a module that may be compressed.
func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !strings.HasSuffix(path, ".xz") {
		content, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	unpack := exec.Command("xz", "--decompress", "--stdout")
	unpack.Stdin = f
	out, err := unpack.Output()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}
