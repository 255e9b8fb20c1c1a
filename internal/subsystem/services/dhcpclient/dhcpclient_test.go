// SPDX-License-Identifier: Apache-2.0

package dhcpclient

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"minne/internal/base/boottime"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
	"minne/internal/testing/servicetest"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

const written = "at=100.5\ninterface=wan\nip=198.51.100.7\nmask=24\nrouter=198.51.100.1 198.51.100.2\ndns=192.0.2.53 0.0.0.0 192.0.2.53 192.0.2.54\ndomain=example.net\nstaticroutes=\nlease=3600\nserverid=198.51.100.1\n"

func TestParse(t *testing.T) {
	l, err := parse(program.Values(written))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(l.Address, l.Routes, l.DNS, l.Server, l.Seconds, l.At); got !=
		"198.51.100.7/24 [0.0.0.0/0 via 198.51.100.1] [192.0.2.53 192.0.2.54] 198.51.100.1 3600 1m40.5s" {
		t.Error(got)
	}
	if left := l.left(3500 * time.Second); left != 200*time.Second+500*time.Millisecond {
		t.Error(left)
	}
	for change, want := range map[string]string{
		"staticroutes=10.0.0.0/8 198.51.100.9 0.0.0.0/0 198.51.100.3\n": "[10.0.0.0/8 via 198.51.100.9 0.0.0.0/0 via 198.51.100.3]",
		"staticroutes=203.0.113.1/32 0.0.0.0 0.0.0.0/0 203.0.113.1\n":   "[203.0.113.1/32 0.0.0.0/0 via 203.0.113.1]",
		"staticroutes=10.0.0.0/8 224.0.0.1 127.0.0.0/8 198.51.100.9\n":  "[0.0.0.0/0 via 198.51.100.1]",
		"router=0.0.0.0 198.51.100.7 198.51.100.4\n":                    "[0.0.0.0/0 via 198.51.100.4]",
		"router=\n": "[]",
	} {
		if l, err := parse(program.Values(written + change)); err != nil || fmt.Sprint(l.Routes) != want {
			t.Errorf("%q: %v, %v; want %s", change, l.Routes, err, want)
		}
	}
	for _, wrong := range []string{"ip=\n", "ip=0.0.0.0\n", "ip=224.0.0.1\n", "ip=127.0.0.1\n", "ip=2001:db8::1\n", "mask=0\n", "mask=7\n", "ip=198.51.100.0\n", "ip=198.51.100.255\n", "ip=240.0.0.1\n", "mask=33\n", "mask=\n", "lease=0\n", "lease=\n", "lease=99999999999\n", "at=\n"} {
		if l, err := parse(program.Values(written + wrong)); err == nil {
			t.Errorf("%q: %+v", wrong, l)
		}
	}
	if l, err := parse(program.Values(written + "lease=4294967295\n")); err != nil || l.left(time.Hour) != math.MaxInt64 {
		t.Errorf("for ever: %+v, %v", l, err)
	}
}

// The script writes down what udhcpc says; the first word of a new client takes nothing away, its
// own later ones do.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "event")
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	client := func(events ...string) string { // one process calls all of them, as udhcpc does
		t.Helper()
		lines := ""
		for _, e := range events {
			lines += file + " " + e + "\n"
		}
		c := exec.Command("sh", "-c", lines+":")
		c.Env = append(os.Environ(), "interface=wan", "ip=198.51.100.7", "mask=24", "router=198.51.100.1", "dns=192.0.2.53", "lease=120", "serverid=198.51.100.1",
			"domain=$(touch "+dir+"/pwned) `touch "+dir+"/pwned`; touch "+dir+"/pwned")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		b, _ := os.ReadFile(filepath.Join(dir, "lease"))
		return string(b)
	}
	if text := client("deconfig"); text != "" {
		t.Errorf("nothing yet: %q", text)
	}
	l, err := parse(program.Values(client("deconfig", "bound")))
	if err != nil || l.Address.String() != "198.51.100.7/24" || l.left(boottime.Now()) > 120*time.Second || l.left(boottime.Now()) < 60*time.Second {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("what a server says was run")
	}
	if text := client("deconfig"); text == "" {
		t.Error("a new client took away what the one before leased")
	}
	if text := client("deconfig", "renew", "nak", "deconfig"); text != "" {
		t.Errorf("after the end of a lease: %q", text)
	}
}

// book is a Learner that remembers.
type book struct {
	mu     sync.Mutex
	leases map[string]string
	told   []string // all that was told
	dns    string
}

func (b *book) Lease(_ context.Context, name string, l *Lease) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := "-"
	if l != nil {
		text = l.Address.String()
	}
	b.leases[name] = text
	b.told = append(b.told, text)
	return nil
}

func (b *book) Servers(list []service.Server) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dns = fmt.Sprint(service.ServersOf(list, []string{"wan"}))
	return nil
}

func (b *book) of(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leases[name]
}

func shell(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// serve runs a DHCP server on the link wanp.
func serve(t *testing.T, dir string) {
	t.Helper()
	c := exec.Command("dnsmasq", "-k", "-C", "/dev/null", "--pid-file="+dir+"/server.pid", "--user=root", "--port=0", "--interface=wanp", "--bind-interfaces", "--no-ping",
		"--dhcp-range=198.51.100.50,198.51.100.59,2m", "--dhcp-option=option:dns-server,192.0.2.53", "--dhcp-leasefile="+dir+"/server.leases", "--dhcp-authoritative")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	eventually(t, "the server", func() bool { _, err := os.Stat(dir + "/server.pid"); return err == nil })
}

func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for range 600 {
		if happened() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal(what, "did not happen")
}

// daemon is a Client that runs until stop.
type daemon struct {
	*Client
	book *book
	stop func()
}

func newDaemon(t *testing.T, runDir string) daemon {
	t.Helper()
	b := &book{leases: map[string]string{}}
	c := New(runDir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err := c.LearnBy(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var once sync.Once
	d := daemon{c, b, func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}}
	t.Cleanup(d.stop)
	<-c.Ready()
	return d
}

// A lease from a real server, kept over the end of the client and of the daemon, refused where it
// can't be used, gone when nobody wants it.
func TestLease(t *testing.T) {
	runDir := t.TempDir()
	shell(t, "ip link set lo up; ip link add wan type veth peer name wanp && ip link set wan up && ip link set wanp up && ip addr add 198.51.100.1/24 dev wanp")
	serve(t, runDir)
	cfg := servicetest.Config(t, "")
	cfg.Interfaces["guests"].Addresses = nil
	want, err := Render(cfg, runDir)
	if err != nil {
		t.Fatal(err)
	}
	first := newDaemon(t, runDir)
	if changes, err := first.Plan(t.Context(), want); err != nil || len(changes) != 1 || changes[0].String() != "+ DHCP client on wan" {
		t.Errorf("%v, %v", changes, err)
	}
	if err := first.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Stop(context.Background()) })
	eventually(t, "the lease", func() bool { return strings.HasPrefix(first.book.of("wan"), "198.51.100.5") })
	leased := first.book.of("wan")
	o := first.Observe()
	if len(o) != 1 || o[0].Lease.Seconds != 120 || o[0].Left == "" || !o[0].Client.Running || first.book.dns != "[192.0.2.53]" {
		t.Errorf("%+v, %s", o, first.book.dns)
	}
	if changes, err := first.Plan(t.Context(), want); err != nil || len(changes) != 0 {
		t.Errorf("%v, %v", changes, err)
	}

	// The client is killed: another comes, and gets the address again. Nothing is taken away meanwhile.
	p := first.Of("wan")
	pid, at := p.State().PID, first.Observe()[0].Lease.At
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another client", func() bool { s := p.State(); return s.Running && s.PID != pid })
	eventually(t, "its lease", func() bool { o := first.Observe(); return o[0].Lease != nil && o[0].Lease.At != at })
	if got := fmt.Sprint(first.book.told); got != "["+leased+"]" {
		t.Errorf("told %s", got)
	}

	// The daemon ends; the client does not; the next daemon knows the lease before it does anything.
	first.stop()
	second := newDaemon(t, runDir)
	if got := second.book.of("wan"); got != leased || second.book.dns != "[192.0.2.53]" {
		t.Errorf("recalled %s, %s", got, second.book.dns)
	}
	pid = p.State().PID
	if err := second.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if s := second.Observe()[0].Client; s.PID != pid || fmt.Sprint(second.book.told) != "["+leased+"]" {
		t.Errorf("%+v, told %v", s, second.book.told)
	}

	// In the network of another interface it can't be used.
	cfg.Interfaces["guests"].Addresses = []config.Address{{Prefix: netip.MustParsePrefix("198.51.100.129/25")}}
	if want, err = Render(cfg, runDir); err != nil {
		t.Fatal(err)
	}
	if err := second.Apply(t.Context(), want); err != nil || second.book.of("wan") != "-" || !strings.Contains(second.Observe()[0].Refused, "of another interface") {
		t.Errorf("%v, %s, %+v", err, second.book.of("wan"), second.Observe())
	}
	// It is asked for another one after a while, by a client that begins anew.
	second.mu.Lock()
	wait := second.again["wan"]
	if wait == nil || wait.at-boottime.Now() > firstAsk {
		t.Fatalf("asks again %+v", wait)
	}
	wait.at = 0
	second.mu.Unlock()
	second.askAgain(t.Context())
	if s := second.Observe()[0].Client; !s.Running || s.PID == pid || wait.pause != 2*firstAsk {
		t.Errorf("%+v, asks again %+v", s, wait)
	} else {
		pid = s.PID
	}
	cfg.Interfaces["guests"].Addresses = nil
	want, _ = Render(cfg, runDir)
	if err := second.Apply(t.Context(), want); err != nil || second.book.of("wan") != leased {
		t.Errorf("%v, %s", err, second.book.of("wan"))
	}

	// Its time is over, and nobody renewed it.
	second.mu.Lock()
	second.clock = func() time.Duration { return boottime.Now() + time.Hour }
	second.mu.Unlock()
	if err := second.look(t.Context()); err != nil || second.book.of("wan") != "-" {
		t.Errorf("%v, %s", err, second.book.of("wan"))
	}
	second.mu.Lock()
	second.clock = boottime.Now
	second.mu.Unlock()

	// Nobody wants one any more.
	none, _ := Render(&config.Config{}, runDir)
	if changes, err := second.Plan(t.Context(), none); err != nil || len(changes) != 1 || changes[0].Action != plan.Remove {
		t.Errorf("%v, %v", changes, err)
	}
	if err := second.Apply(t.Context(), none); err != nil || second.book.of("wan") != "-" {
		t.Errorf("%v, %s", err, second.book.of("wan"))
	}
	if _, err := os.Stat(program.Dir(runDir, prefix+"wan")); err == nil {
		t.Error("files of the client are left")
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the client goes on")
	}
}
