// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeClocks are clocks that a test sets.
type fakeClocks struct {
	since time.Duration
	now   time.Time
	boot  string
	sync  bool
}

func (c *fakeClocks) sinceBoot() time.Duration { return c.since }
func (c *fakeClocks) wall() time.Time          { return c.now }
func (c *fakeClocks) bootID() string           { return c.boot }
func (c *fakeClocks) synchronised() bool       { return c.sync }
func (c *fakeClocks) offset() time.Duration    { return time.Duration(c.now.UnixNano()) - c.since }
func (c *fakeClocks) wallAt(at time.Duration) time.Time {
	return time.Unix(0, int64(at+c.offset()))
}

func (c *fakeClocks) pass(d time.Duration) { c.since, c.now = c.since+d, c.now.Add(d) }

// A clock that is set, by years and in both directions, with and without a new daemon, neither ends
// nor prolongs what is timed; a reboot goes on by the wall's clock.
func TestClockIsSet(t *testing.T) {
	const year = 365 * 24 * time.Hour
	one := netip.MustParsePrefix("192.0.2.1/32")
	for name, do := range map[string]func(c *fakeClocks, l *ledger) (*ledger, error){
		"set":    func(_ *fakeClocks, l *ledger) (*ledger, error) { return l, l.clockSet() },
		"daemon": func(c *fakeClocks, l *ledger) (*ledger, error) { return readLedger(l.path, c) },
		"both": func(c *fakeClocks, l *ledger) (*ledger, error) {
			if err := l.clockSet(); err != nil {
				return nil, err
			}
			return readLedger(l.path, c)
		},
		"reboot behind it": func(c *fakeClocks, l *ledger) (*ledger, error) {
			if err := l.clockSet(); err != nil {
				return nil, err
			}
			c.boot, c.since = "second", 20*time.Second
			return readLedger(l.path, c)
		},
	} {
		for _, by := range []time.Duration{year, -year, time.Hour, -time.Hour} {
			t.Run(fmt.Sprint(name, " ", by), func(t *testing.T) {
				c := &fakeClocks{since: time.Hour, now: time.Unix(1.8e9, 0), boot: "first"}
				l, err := readLedger(filepath.Join(t.TempDir(), "sets.journal"), c)
				must(t, err)
				must(t, l.write(record{Set: "a", Add: []netip.Prefix{one}, Until: until{at: l.now() + 10*time.Minute}}))
				c.pass(4 * time.Minute)
				c.now = c.now.Add(by)
				l, err = do(c, l)
				must(t, err)
				c.pass(5 * time.Minute)
				if gone := l.expire(l.now()); gone != nil {
					t.Errorf("it has ended after 9 of its 10 minutes")
				}
				c.pass(2 * time.Minute)
				if gone := l.expire(l.now()); len(gone) != 1 {
					t.Errorf("it has not ended after 11 of its 10 minutes")
				}
			})
		}
	}
}

// A router without a clock of its own boots in 1970: what was timed before the boot is right as soon
// as the clock is, and what is timed meanwhile too.
func TestClockIsWrongAtBoot(t *testing.T) {
	before, fresh := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	c := &fakeClocks{since: time.Hour, now: time.Unix(1.8e9, 0), boot: "first", sync: true}
	l, err := readLedger(filepath.Join(t.TempDir(), "sets.journal"), c)
	must(t, err)
	must(t, l.write(record{Set: "a", Add: []netip.Prefix{before}, Until: until{at: l.now() + time.Hour}}))
	right := c.now.Add(10 * time.Minute) // the boot took so long
	*c = fakeClocks{since: 20 * time.Second, now: time.Unix(20, 0), boot: "second"}
	l, err = readLedger(l.path, c)
	must(t, err)
	must(t, l.write(record{Set: "a", Add: []netip.Prefix{fresh}, Until: until{at: l.now() + 5*time.Minute}}))
	c.now, c.sync = right, true
	must(t, l.clockSet())
	for range 2 { // the second time, in a new daemon
		if u, _ := l.set("a").Get(before); (u.at - l.now()).Round(time.Second) != 50*time.Minute {
			t.Errorf("of 50 minutes, it has %s left", u.at-l.now())
		}
		if u, _ := l.set("a").Get(fresh); u.at-l.now() != 5*time.Minute {
			t.Errorf("of 5 minutes, it has %s left", u.at-l.now())
		}
		if l, err = readLedger(l.path, c); err != nil {
			t.Fatal(err)
		}
	}
	c.now = c.now.Add(24 * time.Hour) // once it was right, nobody's wrong clock ends anything
	must(t, l.clockSet())
	if gone := l.expire(l.now()); gone != nil {
		t.Errorf("ended by a clock that was set: %v", gone)
	}
}

// What the disk does not take is in force all the same: in the kernel, for the listener, and in the
// answer to the next command; which says that it would not last, until it would.
func TestSetsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8k"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	f, d := fresh(t), school(t)
	f.live.path = filepath.Join(dir, "sets.journal")
	must(t, f.Apply(t.Context(), d))
	h := heard{f, make(chan string, 100)}
	f.Listen(h)
	var filler [16 << 10]byte
	fd, err := unix.Open(filepath.Join(dir, "filler"), unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	for {
		if n, err := unix.Write(fd, filler[:]); n <= 0 || err != nil {
			break
		}
	}
	must(t, unix.Close(fd))
	const lost = "not stored for the next restart"
	done, err := f.ChangeSet(SetChange{Set: "web", Add: []string{"10.3.0.11"}})
	if err == nil || !strings.Contains(err.Error(), lost) || done.Added != 1 {
		t.Errorf("the first time: %+v, %v", done, err)
	}
	h.want(t, "web +[10.3.0.11/32] -[] now 1")
	done, err = f.ChangeSet(SetChange{Set: "web", Add: []string{"10.3.0.11"}})
	if err == nil || !strings.Contains(err.Error(), lost) || done.Added != 0 {
		t.Errorf("the second time: %+v, %v", done, err)
	}
	if faults := f.book.Faults(); len(faults) != 1 || !strings.Contains(faults[0].Text, "not on disk") {
		t.Errorf("faults %v", faults)
	}
	if words, err := f.Recheck(t.Context()); err != nil || words != nil {
		t.Errorf("kernel and ledger differ: %q %v", words, err)
	}
	must(t, unix.Unlink(filepath.Join(dir, "filler")))
	done, err = f.ChangeSet(SetChange{Set: "web", Delete: []string{"10.3.0.13"}})
	if err != nil || done.Deleted != 0 || len(f.book.Faults()) > 0 {
		t.Errorf("with room again: %+v, %v, faults %v", done, err, f.book.Faults())
	}
	l, err := readLedger(f.live.path, f.live.clock)
	must(t, err)
	if list := l.sorted("web"); len(list) != 1 {
		t.Errorf("on disk: %v", list)
	}
}
