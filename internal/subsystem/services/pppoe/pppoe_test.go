// SPDX-License-Identifier: Apache-2.0

package pppoe

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

// dialing runs the script with a pppd that ends at once and a sleep that only writes down how long it was to be. It
// returns the first pauses.
func dialing(t *testing.T, script string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"dial":  script,
		"pppd":  "#!/bin/sh\nexit 19\n", // authentication failed
		"sleep": "#!/bin/sh\necho \"$1\" >>pauses\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("sh", filepath.Join(dir, "dial"))
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var pauses []string
	for end := time.Now().Add(time.Minute); len(pauses) < 9 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "pauses"))
		pauses = strings.Fields(string(text))
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the script ended with %v", err)
	}
	return pauses[:min(len(pauses), 9)]
}

// A provider that gives no session is asked more and more seldom; a line that was cut after a session is dialed at once.
func TestPausesBetweenDials(t *testing.T) {
	if got, want := strings.Join(dialing(t, dial), " "), "0 1 3 7 15 31 60 60 60"; got != want {
		t.Errorf("without a session: pauses %s, expected %s", got, want)
	}
	if got, want := strings.Join(dialing(t, strings.Replace(dial, "steady=60", "steady=0", 1)), " "), "0 0 0 0 0 0 0 0 0"; got != want {
		t.Errorf("after sessions that lasted: pauses %s, expected %s", got, want)
	}
}

// What providers told is passed on, also of sessions that an earlier daemon left; a stranger's words are no address.
func TestServersOfSessions(t *testing.T) {
	runDir := t.TempDir()
	for name, dns := range map[string]string{"isp-a": "198.51.100.53 198.51.100.54", "isp-b": "198.51.100.54 $(reboot) 127.0.0.1"} {
		dir := program.Dir(runDir, prefix+name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"command": "sh\n", "session": "address=192.0.2.7\npeer=192.0.2.1\nsince=1\ndns=" + dns + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	var got []service.Server
	c := &Client{Fleet: program.NewFleet(runDir, "interface", prefix, log), runDir: runDir, log: log, servers: func(from string, list []service.Server) error {
		got = list
		return nil
	}}
	if err := c.ReportServers(); err != nil || fmt.Sprint(got) != "[{isp-a 198.51.100.53} {isp-a 198.51.100.54} {isp-b 198.51.100.54}]" {
		t.Errorf("servers %v, %v", got, err)
	}
}
