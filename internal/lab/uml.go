// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab/remote"
)

// A node in User-Mode Linux: for what the host's kernel may lack, VRFs, bonds, PPPoE. It
// sees the files of the host, which it can't change, and its memory is bounded.

const (
	umlMemory = "256M"
	umlBoot   = 60 * time.Second // at most, until the agent answers
)

// UMLTree is where scripts/fetch-uml.sh puts the kernel with its modules and C library.
func UMLTree() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "minne", "uml-trixie"), nil
}

// umlModules are the drivers that a router may want; what they need is loaded before them.
var umlModules = []string{"ipv6", "veth", "8021q", "bridge", "bonding", "vrf", "dummy", "tun", "pppoe", "ppp_async",
	"nf_conntrack", "nf_tables", "nft_ct", "nft_limit", "nft_log", "nft_reject", "nf_reject_ipv4", "nf_reject_ipv6", "nft_masq", "nft_redir", "overlay"}

var umlStarted atomic.Int32

// bootUML starts a User-Mode Linux whose first process is the agent of binary.
func bootUML(ctx context.Context, n *Running, taps []tap, binary string) (machine, error) {
	tree, err := UMLTree()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(tree, "usr/bin/linux.uml")); err != nil {
		return nil, fmt.Errorf("no User-Mode Linux at %s: fetch it with sh scripts/fetch-uml.sh %s in Minne's source tree", tree, tree)
	}
	if binary == "" {
		return nil, errors.New("a node in User-Mode Linux needs the minne command as its first process")
	}
	if err := os.MkdirAll(filepath.Join(tree, "host"), 0o755); err != nil {
		return nil, err
	}
	modules := filepath.Join(n.Dir, "modules") // as the guest finds them
	if err := os.Symlink(filepath.Join(tree, "usr/lib/uml/modules"), modules); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(pair[0], true); err != nil { // for its deadline
		return nil, err
	}
	near, far := os.NewFile(uintptr(pair[0]), "line"), os.NewFile(uintptr(pair[1]), "line")
	defer far.Close()
	p, err := n.startUML(tree, binary, taps, far)
	if err != nil {
		near.Close()
		return nil, err
	}
	n.lab.OnClose(func() error { return os.RemoveAll(filepath.Join(tree, "tmp", n.umid())) })
	m := &machineLine{process: p, line: near}
	if err := awaitAgent(ctx, near); err != nil {
		m.stop()
		return nil, fmt.Errorf("the machine does not answer: %w; its kernel says:\n%s", err, tail(p.log, 8))
	}
	m.Line = remote.NewLine(near)
	return m, nil
}

// startUML starts the kernel: in the node's namespace, so that it ends with the node; with the files of
// the tree, whose C library it wants, and with the host's below /host; its taps are opened through /dev/net/tun.
func (n *Running) startUML(tree, binary string, taps []tap, line *os.File) (*Process, error) {
	arguments := []string{"mem=" + umlMemory, "rootfstype=hostfs", "rootflags=/host", "ro", "uml_dir=/tmp/", "umid=" + n.umid(),
		"loglevel=4", "panic=-1", "con=null", "con0=fd:0,fd:1", "ssl=null", "ssl0=fd:3,fd:3"}
	for i, t := range taps {
		arguments = append(arguments, fmt.Sprintf("vec%d:transport=tap,ifname=%s,mtu=%d", i, t.device, t.MTU+8))
	}
	arguments = append(arguments, "init="+binary, "--", "lab", "guest", "init", n.Dir)

	p := &Process{name: "uml", log: filepath.Join(n.Dir, "uml.log"), done: make(chan struct{})}
	console, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	script := `mount --rbind / "$0/host" && mount --rbind /dev "$0/dev" && exec chroot "$0" /usr/bin/linux.uml "$@"`
	p.cmd = exec.Command("unshare", append([]string{"--mount", "sh", "-c", script, tree}, arguments...)...)
	p.cmd.Env = []string{"HOME=/tmp", "TMPDIR=/tmp", "PATH=" + os.Getenv("PATH")}
	// Not the file itself: User-Mode Linux can't wait for one, and writes nothing.
	p.cmd.Stdout = struct{ io.Writer }{console}
	p.cmd.Stderr = p.cmd.Stdout
	p.cmd.ExtraFiles = []*os.File{line} // descriptor 3
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = n.Do(func() error {
		// Unpinned, a User-Mode Linux kernel bounces between CPUs and runs ten times slower.
		var one unix.CPUSet
		one.Set((runtime.NumCPU() - int(umlStarted.Add(1))%runtime.NumCPU()) % runtime.NumCPU())
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return fmt.Errorf("pin to one CPU: %w", err)
		}
		return p.cmd.Start()
	})
	if err != nil {
		console.Close()
		return nil, fmt.Errorf("start User-Mode Linux for %s: %w", n.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		console.Close()
		close(p.done)
	}()
	return p, nil
}

// umid names the machine among those of the host.
func (n *Running) umid() string { return n.Namespace }

// awaitAgent returns when the agent has said its first line.
func awaitAgent(ctx context.Context, line *os.File) error {
	end := time.Now().Add(umlBoot)
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		end = d
	}
	if err := line.SetReadDeadline(end); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { line.SetReadDeadline(time.Unix(0, 1)) }) //nolint:errcheck // the deadline is there
	defer stop()
	var said []byte
	for one := make([]byte, 1); !strings.HasSuffix(string(said), agentReady); {
		if _, err := line.Read(one); err != nil {
			return err
		}
		said = append(said, one[0])
	}
	return line.SetReadDeadline(time.Time{})
}

func tail(file string, lines int) string {
	text, _ := os.ReadFile(file) // an unreadable log is an empty one
	return lastLines(strings.ReplaceAll(string(text), "\r", ""), lines)
}
