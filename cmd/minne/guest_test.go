// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"minne/internal/model/api"
)

// TestAPreviewOpensNoFilesOfOthers: a member of the group minne may ask what a configuration would change; root's
// daemon opens only files beside the configuration for that.
func TestAPreviewOpensNoFilesOfOthers(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	run := filepath.Join(b.root, "run/minne-instances", b.name)
	elsewhere := filepath.Join(b.root, "elsewhere")
	if err := errors.Join(os.Chmod(b.root, 0o755), os.Chmod(filepath.Join(run, "control.sock"), 0o666), os.Mkdir(elsewhere, 0o700)); err != nil {
		t.Fatal(err)
	}
	b.file("elsewhere/list", "192.0.2.0/24\n")
	beside := b.file("etc/minne/instances/"+b.name+"/list", "192.0.2.0/24\n")
	guest := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return dialAs(65534, filepath.Join(run, "control.sock"))
	}}}
	ask := func(list string) (code int, said string) {
		question, err := json.Marshal(api.Commit{Source: "asked.yaml", Config: fmt.Sprintf(`version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24]}
  wan: {zone: wan, addresses: [198.51.100.1/24]}
firewall:
  sets: {blocked: {file: %q}}
  policies: [{from: lan, to: wan, rules: [deny any @blocked], default: permit}]
`, list)})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := guest.Post("http://minne/v1/plan", "application/json", bytes.NewReader(question))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	for _, list := range []string{filepath.Join(elsewhere, "list"), "/dev/watchdog", "../../../../../elsewhere/list", "/proc/kallsyms"} {
		if code, said := ask(list); code == http.StatusOK || !strings.Contains(said, "only root may ask about files elsewhere") {
			t.Errorf("%s: status %d, %s", list, code, said)
		}
	}
	if code, said := ask("list"); code != http.StatusOK {
		t.Errorf("a file beside the configuration: status %d, %s", code, said)
	}
	if code, said := ask(beside); code != http.StatusOK {
		t.Errorf("the same by its whole path: status %d, %s", code, said)
	}
}

// dialAs connects as another user: the kernel notes the one that this thread is.
func dialAs(uid uintptr, socket string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid uintptr) error {
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uid, ^uintptr(0)); err != 0 {
			return err
		}
		return nil
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), socket)
	defer file.Close()
	if err := become(uid); err != nil {
		return nil, err
	}
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket})
	if err := errors.Join(err, become(0)); err != nil {
		return nil, err
	}
	return net.FileConn(file)
}
