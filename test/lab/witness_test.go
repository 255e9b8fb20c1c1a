// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"minne/internal/lab"
)

// Witnesses of what was on the wire that share no code with the lab: tcpdump, which
// writes down what passes a port, and the kernel's own counters as ip prints them.

// capture is a tcpdump that runs.
type capture struct {
	port string
	file string
	cmd  *exec.Cmd
	said *heard
}

// heard is what a program has said so far.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// watch starts tcpdump at a port of a node, in both directions, and returns when it listens.
func watch(t *testing.T, node *lab.Running, port string) *capture {
	t.Helper()
	c := &capture{port: port, file: filepath.Join(t.TempDir(), port+".pcap"), said: &heard{}}
	// -Z root: it would drop root and could not write where the test wants it.
	c.cmd = exec.Command("tcpdump", "-i", port, "-s", "2048", "-B", "32768", "--immediate-mode", "-U", "-n", "-Z", "root", "-w", c.file)
	c.cmd.Stderr = c.said
	start := c.cmd.Start
	if node != nil {
		start = func() error { return node.Do(c.cmd.Start) }
	}
	if err := start(); err != nil {
		t.Fatalf("%v: install the package tcpdump", err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			c.cmd.Process.Kill()
			c.cmd.Wait()
		}
	})
	eventually(t, "tcpdump listens at "+port+": "+c.said.String(), func() bool { return strings.Contains(c.said.String(), "listening on") })
	return c
}

// frame is what tcpdump wrote down of one frame.
type frame struct {
	at    time.Time
	bytes []byte
}

var dropped = regexp.MustCompile(`(\d+) packets? dropped by kernel`)

// end waits until so many frames are in the file, ends tcpdump, and returns all frames.
func (c *capture) end(t *testing.T, frames int) []frame {
	t.Helper()
	for limit := time.Now().Add(3 * time.Second); time.Now().Before(limit) && len(readCapture(t, c.file)) < frames; {
		time.Sleep(20 * time.Millisecond)
	}
	c.cmd.Process.Signal(syscall.SIGINT)
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("tcpdump at %s: %v: %s", c.port, err, c.said)
	}
	if lost := dropped.FindStringSubmatch(c.said.String()); lost == nil || lost[1] != "0" {
		t.Fatalf("tcpdump at %s did not see everything: %s", c.port, c.said)
	}
	return readCapture(t, c.file)
}

// readCapture reads a file of tcpdump; a record that is not whole yet ends it.
func readCapture(t *testing.T, file string) (frames []frame) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 24 {
		return nil
	}
	for b = b[24:]; len(b) >= 16; {
		n := int(binary.NativeEndian.Uint32(b[8:]))
		if len(b) < 16+n {
			break
		}
		at := time.Unix(int64(binary.NativeEndian.Uint32(b)), int64(binary.NativeEndian.Uint32(b[4:]))*1000)
		frames = append(frames, frame{at, b[16 : 16+n]})
		b = b[16+n:]
	}
	return frames
}

// judgement is what tcpdump says of the checksums in a file.
type judgement struct{ packets, good, bad int }

// judge has tcpdump check every IPv4, UDP and TCP checksum of a file.
func judge(t *testing.T, file string) (j judgement) {
	t.Helper()
	out, err := exec.Command("tcpdump", "-r", file, "-n", "-t", "-vv", "udp or tcp").Output()
	if err != nil {
		t.Fatalf("tcpdump -r %s: %v", file, err)
	}
	text := string(out)
	j.good = strings.Count(text, "[udp sum ok]") + strings.Count(text, " (correct)")
	j.bad = strings.Count(text, "bad cksum") + strings.Count(text, "[bad udp cksum") + strings.Count(text, "(incorrect") + strings.Count(text, "[no cksum]")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "IP ") || strings.HasPrefix(line, "IP6 ") {
			j.packets++
		}
	}
	return j
}

// counters are what the kernel counted at a port.
type counters struct {
	Packets, Bytes, Dropped, Errors uint64
}

func (c counters) since(before counters) counters {
	return counters{c.Packets - before.Packets, c.Bytes - before.Bytes, c.Dropped - before.Dropped, c.Errors - before.Errors}
}

// count asks ip what the ports of a namespace have received.
func count(t *testing.T, namespace string) map[string]counters {
	t.Helper()
	out, err := exec.Command("ip", "-n", namespace, "-j", "-s", "link", "show").Output()
	if err != nil {
		t.Fatalf("ip -n %s link show: %v", namespace, err)
	}
	var links []struct {
		Name    string `json:"ifname"`
		Stats64 struct{ RX counters }
	}
	if err := json.Unmarshal(out, &links); err != nil {
		t.Fatalf("ip -n %s link show: %v", namespace, err)
	}
	received := map[string]counters{}
	for _, l := range links {
		received[l.Name] = l.Stats64.RX
	}
	return received
}

// eventually waits until something is so, for a time that no machine should need.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it did not come to it within 20 s: %s", what)
		}
	}
}

// testerOf is the namespace of the tester beside a device's.
func testerOf(device *lab.Running) string {
	return strings.TrimSuffix(device.Namespace, device.Name) + "tester"
}
