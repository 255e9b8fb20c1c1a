// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"minne/internal/base/boottime"
	"minne/internal/base/instance"
	"minne/internal/subsystem/nft"
)

// consoles are where people look who stand in front of the machine.
var consoles = []string{"/dev/tty1", "/dev/ttyS0"}

// OnImage tells whether this machine was booted from the router's image.
func OnImage() bool {
	_, err := os.Stat(reportFile)
	return err == nil
}

// Consoles writes to every console of the machine that is there: a person may stand before
// any of them.
type Consoles struct{}

func (Consoles) Write(b []byte) (int, error) {
	for _, path := range consoles {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|nonblock, 0)
		if err != nil {
			continue // a line that the machine does not have
		}
		_, _ = f.Write(b)
		f.Close()
	}
	return len(b), nil
}

// Say writes a line to every console of the machine.
func Say(format string, args ...any) {
	line := fmt.Sprintf("minne: "+format, args...)
	fmt.Fprint(Consoles{}, "\n"+strings.ReplaceAll(line, "\n", "\n       ")+"\n")
}

// Started is told by the daemon what it began with: the revision in use (0 for
// none) and what of it is missing. On a router that its configuration leaves
// unreachable, a port is opened for logins. Elsewhere than on the image it does
// nothing.
func Started(ctx context.Context, revision int, missing []string) error {
	if !OnImage() {
		return nil
	}
	at := boottime.Now()
	err := started(ctx, revision, missing)
	// Last: the consoles wait for it, and by now it is known whether there is a password.
	return errors.Join(err, noteDaemon(at))
}

func noteDaemon(at time.Duration) error {
	r, err := ReadReport()
	if err != nil || r.Daemon != 0 {
		return err
	}
	r.Daemon = at
	return r.store()
}

func started(ctx context.Context, revision int, missing []string) error {
	shut, err := filterStands()
	if err != nil {
		return err
	}
	inst, err := instance.New(instance.Default)
	if err != nil {
		return err
	}
	switch {
	case revision == 0 && !configured(inst):
		return nil // a new router: the console asks
	case revision == 0:
		return help(ctx, "no configuration could be used: the one in /etc/minne/minne.yaml is absent or wrong (minne show log)")
	case shut:
		return help(ctx, "the firewall of revision "+fmt.Sprint(revision)+" could not be put in place: "+strings.Join(missing, "; "))
	case len(missing) > 0:
		InPlace(revision) // as far as it can be
		Say("revision %d is in force, but this is missing of it:\n%s", revision, strings.Join(missing, "\n"))
	}
	return nil
}

func filterStands() (bool, error) {
	_, there, err := nft.Comment(FilterTable)
	return there, err
}

// InPlace is told by the daemon each time a configuration is in place. The first
// time, it says how long that took.
func InPlace(revision int) {
	if !OnImage() || !forwards() {
		return
	}
	r, err := ReadReport()
	if err != nil || r.Forwarding != 0 {
		return
	}
	r.Forwarding = boottime.Now()
	if err := r.store(); err != nil {
		Say("%v", err)
	}
	Say("revision %d is in force: forwarding since %.1f s after the kernel's start", revision, r.Forwarding.Seconds())
}

// forwards tells whether the kernel forwards.
func forwards() bool {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	return err == nil && strings.TrimSpace(string(text)) == "1"
}

// Open removes the filter of the boot, and the help that may have been given behind it.
func Open(ctx context.Context) error {
	there, err := filterStands()
	if err != nil || !there {
		return err
	}
	if err := endHelp(); err != nil {
		return err
	}
	_, err = nft.Run(ctx, "delete table inet "+FilterTable+"\n", "-f", "-")
	return err
}

// Text is the report as people read it.
func (r Report) Text() string {
	var b strings.Builder
	kind := ""
	if r.Trial {
		kind = ", to be tried"
	}
	if r.Help {
		kind = ", to be helped"
	}
	sets := ""
	if len(r.Sets) > 0 {
		sets = " with " + strings.Join(r.Sets, ", ")
	}
	fmt.Fprintf(&b, "slot %s%s%s, running from %s\n", r.Slot, sets, kind, r.Root)
	at := func(name string, began, took time.Duration, failed string) {
		fmt.Fprintf(&b, "%8.2f s  %-14s", began.Seconds(), name)
		if took > 0 {
			fmt.Fprintf(&b, " %6.2f s", took.Seconds())
		}
		if failed != "" {
			fmt.Fprintf(&b, "  %s", failed)
		}
		b.WriteString("\n")
	}
	at("system found", r.Initramfs, 0, "")
	for _, s := range r.Steps {
		at(s.Name, s.Began, s.Took, s.Failed)
	}
	if r.Daemon > 0 {
		at("daemon", r.Daemon, 0, "")
	}
	if r.Forwarding > 0 {
		at("forwarding", r.Forwarding, 0, "")
	} else {
		b.WriteString("       not  forwarding\n")
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
