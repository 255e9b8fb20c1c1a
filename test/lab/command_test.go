// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/lab/report"
	"minne/internal/lab/result"
	"minne/internal/lab/trial"
	"minne/internal/testing/faulty"
	"minne/internal/testing/testbuild"
)

// The minne command as a user has it, and what he may do wrong.
func TestCommand(t *testing.T) {
	// What minne leaves running becomes a child of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	c := build(t)
	t.Run("bad input", func(t *testing.T) { c.badInput(t) })
	t.Run("wrong forwarding", func(t *testing.T) { c.wrongForwarding(t) })
	t.Run("interrupted", func(t *testing.T) { c.interrupted(t) })
}

// command is the minne command, built.
type command struct{ binary string }

func build(t *testing.T) command {
	t.Helper()
	return command{testbuild.Minne(t, open(t))}
}

// open is a directory of the test's that every user may read and write.
func open(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "minne-lab-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// longest is how long a command may take that is not told to measure for long.
const longest = time.Minute

// run runs minne, maybe by way of another program, in an empty directory, and returns how it ended. Whatever becomes of it, it must leave nothing behind but what keep names.
func (c command) run(t *testing.T, by []string, args []string, keep ...string) (p *process, code int) {
	t.Helper()
	p = c.start(t, by, args)
	code = p.wait(t)
	p.leftNothing(t, keep...)
	return p, code
}

// process is a minne that runs.
type process struct {
	cmd    *exec.Cmd
	dir    string // its working and temporary directory, empty at first
	said   *heard
	before traces
	ended  chan error
}

func (c command) start(t *testing.T, by, args []string) *process {
	t.Helper()
	p := &process{dir: open(t), said: &heard{}, before: look(t), ended: make(chan error, 1)}
	argv := append(append(append([]string{}, by...), c.binary), args...)
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Dir, p.cmd.Stderr = p.dir, p.said
	p.cmd.Env = append(os.Environ(), "TMPDIR="+p.dir)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	return p
}

// wait waits for the end and returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case err := <-p.ended:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(longest):
		t.Fatalf("%v goes on after %v:\n%s", p.cmd.Args, longest, p.said)
		return 0
	}
}

// badInput gives minne lab what it can't measure with.
func (c command) badInput(t *testing.T) {
	plug(t, "left", "right")
	plug(t, "taken", "other")
	for _, port := range []string{"left", "right", "taken", "other"} {
		settle(t, port)
	}
	occupy(t, "taken")
	junk := filepath.Join(open(t), "junk")
	if err := os.WriteFile(junk, []byte("192.0.2.0/24\n198.51.100.0/24\nBGP table version is 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	full := open(t)
	if err := os.WriteFile(filepath.Join(full, "notes"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name string
		by   []string
		args string
		code int
		says []string
	}{
		{"unknown port", nil, "throughput --tx nosuch0 --rx right", 1, []string{"nosuch0"}},
		{"port that was meant", nil, "throughput --tx lefft --rx right", 1, []string{"lefft", "left"}},
		{"one port", nil, "throughput --tx left", 1, []string{"--tx", "--rx"}},
		{"the same port twice", nil, "throughput --tx left --rx left", 1, []string{"one port"}},
		{"port of somebody else's program", nil, "throughput --tx taken --rx right", 1, []string{"taken", "XDP program", "detach it"}},
		{"a gateway of nowhere", nil, "throughput --tx left --rx right --tx-gateway 198.18.0.1 --rx-gateway 198.19.0.1", 1, []string{"198.18.0.1", "did not answer"}},
		{"gateway that is none", nil, "mrr --tx left --rx right --tx-gateway router --rx-gateway 198.19.0.1", 1, []string{"router", "MAC address or an IP address"}},
		{"a rate above the maximum", nil, "latency kernel --rate 1e9", 1, []string{"1000.000 M", "more than the"}},
		{"table with junk", nil, "mrr kernel --table " + junk, 1, []string{junk, "line 3", `"BGP"`}},
		{"no such table", nil, "mrr kernel --table " + junk + "0", 1, []string{junk + "0", "no such file"}},
		{"word of no pattern", nil, "mrr kernel --traffic flow=7", 2, []string{`"flow=7"`, `did you mean "flows=7"`}},
		{"frame size", nil, "mrr kernel --size 63", 2, []string{"63", "64 to 1518"}},
		{"no such capture", nil, "mrr kernel --traffic pcap=" + junk + "0", 1, []string{junk + "0"}},
		{"capture that is none", nil, "mrr kernel --traffic pcap=" + junk, 1, []string{junk, "pcap"}},
		{"unknown device", nil, "throughput kernle", 2, []string{"kernle", "kernel"}},
		{"unknown goal", nil, "throughput kernel --goal ndx", 2, []string{"ndx", "ndr"}},
		{"unknown event", nil, "recovery kernel --event fire", 2, []string{"fire", "overload"}},
		{"device besides ports", nil, "throughput kernel --tx left --rx right", 2, []string{"kernel", "--tx"}},
		{"report directory that is not empty", nil, "mrr kernel --out " + full, 1, []string{full, "not empty"}},
		{"report where no directory can be", nil, "mrr kernel --out " + junk + "/report", 1, []string{junk}},
		{"no root", []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, "throughput kernel", 1, []string{"root"}},
		{"no root between ports", []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, "throughput --tx left --rx right", 1, []string{"root"}},
		{"one processor", []string{"taskset", "-c", firstCPU(t)}, "throughput kernel", 1, []string{"two processors", "minne lab cost"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			p, code := c.run(t, x.by, append([]string{"lab"}, strings.Fields(x.args)...))
			said := p.said.String()
			if code != x.code {
				t.Errorf("exit code %d, expected %d", code, x.code)
			}
			for _, words := range x.says {
				if !strings.Contains(said, words) {
					t.Errorf("it does not say %q", words)
				}
			}
			message := strings.TrimSpace(said[max(0, strings.LastIndex(said, "minne:")):])
			if n := strings.Count(message, "\n"); !strings.Contains(said, "minne: ") || n > 3 || strings.Contains(said, "goroutine") {
				t.Errorf("expected one clear message")
			}
			if t.Failed() {
				t.Logf("it said:\n%s", said)
			} else {
				t.Logf("%s", message)
			}
		})
	}
	if content, err := os.ReadFile(filepath.Join(full, "notes")); string(content) != "mine" {
		t.Errorf("a file in a directory that is not the lab's became %q, %v", content, err)
	}
}

// occupy puts a program of somebody else's on a port.
func occupy(t *testing.T, port string) {
	t.Helper()
	l, err := netlink.LinkByName(port)
	if err != nil {
		t.Fatal(err)
	}
	p := passing(t)
	x, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: l.Attrs().Index, Flags: link.XDPDriverMode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
}

// wrongForwarding measures devices that forward as no router may. Every one must end the measurement
// with the reason, in words and in the report.
func (c command) wrongForwarding(t *testing.T) {
	for _, x := range []struct {
		name, command string
		faults        faulty.Faults
		says          string
		found         func(trial.Result) uint64
	}{
		{"TTL", "mrr", faulty.Faults{BadTTL: 500}, "had a TTL (hop limit) that is not one less", func(r trial.Result) uint64 { return r.BadTTL }},
		{"header checksum", "throughput", faulty.Faults{BadHeader: 500}, "had a wrong IP header", func(r trial.Result) uint64 { return r.BadHeader }},
		{"MAC", "loss", faulty.Faults{BadMAC: 500}, "had a MAC address that is not the sink's", func(r trial.Result) uint64 { return r.BadMAC }},
		{"payload", "back-to-back", faulty.Faults{Corrupt: 500}, "had a payload or transport checksum that differs", func(r trial.Result) uint64 { return r.Corrupted }},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(t, x.faults)
			p, code := c.run(t, nil, []string{"lab", x.command, "--tx", b.tx, "--rx", b.rx, "--size", "200", "--out", "report"}, "report")
			said := p.said.String()
			if code != 1 || !strings.Contains(said, x.says) || !strings.Contains(said, "forwards wrongly") {
				t.Errorf("exit code %d, it said:\n%s", code, said)
			}
			r := c.readReport(t, filepath.Join(p.dir, "report"))
			var found uint64
			for _, one := range r.Trials {
				found += x.found(one)
			}
			if found == 0 || !strings.Contains(r.Partial, x.says) {
				t.Errorf("the report has %d such frames in %d trials, and is partial because of %q", found, len(r.Trials), r.Partial)
			}
			if !r.Empty() {
				t.Errorf("the report has figures of a device that forwards wrongly: %+v", r)
			}
		})
	}
}

// readReport returns the result in a report's directory, whose page and tables must be whole too.
func (c command) readReport(t *testing.T, dir string) *result.Result {
	t.Helper()
	r, err := report.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, report.PageFile))
	if err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("the page is not whole: %d bytes, %v", len(page), err)
	}
	if out, err := exec.Command(c.binary, "lab", "show", dir).CombinedOutput(); err != nil {
		t.Errorf("minne lab show: %v: %s", err, out)
	}
	return r
}

// interrupted presses Ctrl-C in the middle of a search, and then has what was measured until then.
func (c command) interrupted(t *testing.T) {
	for _, device := range []string{"kernel", "minne"} {
		t.Run(device, func(t *testing.T) {
			p := c.start(t, nil, []string{"lab", "throughput", device, "--out", "report"})
			eventually(t, "a search begins", func() bool {
				return strings.Contains(p.said.String(), "trial 1 ")
			})
			time.Sleep(3 * time.Second) // the warm-up takes one
			if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if code := p.wait(t); code != 1 || !strings.Contains(p.said.String(), "minne: interrupted; what was measured until then is in the report") {
				t.Errorf("exit code %d, it said:\n%s", code, p.said)
			}
			p.leftNothing(t, "report")
			r := c.readReport(t, filepath.Join(p.dir, "report"))
			if !strings.Contains(r.Partial, "interrupted") || len(r.Trials) == 0 || r.Ended.IsZero() {
				t.Errorf("partial %q, %d trials, ended %v", r.Partial, len(r.Trials), r.Ended)
			}
		})
	}
}
