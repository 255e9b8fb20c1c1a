// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/lab/remote"
)

// Nodes that are machines with a kernel of their own.
//
// Such a node has a namespace as every other, in which its cables end. There each port is
// joined to a tap device, and the tap is the machine's port: what arrives at one leaves by
// the other, byte for byte, VLAN tags and the frames that bridges keep to themselves
// included. The namespace itself speaks to nobody. So cables, captures and removal are
// those of all nodes, and of what the machine is, the lab knows these few words only:

// MachineKind says what a node stands in.
type MachineKind string

// The kinds of machines.
const (
	Namespace MachineKind = ""     // the host's kernel
	UML       MachineKind = "uml"  // User-Mode Linux: a kernel as a process, with the host's files
	QEMU      MachineKind = "qemu" // a PC of software that boots the router's image, with files of its own
)

// boot starts a machine of each kind in the node's namespace, with the taps as its ports. When it returns, the machine runs programs.
var boot = map[MachineKind]func(context.Context, *Running, []Tap, string) (Machine, error){
	UML:  bootUML,
	QEMU: bootQEMU,
}

// Boot starts a machine of a kind that the lab does not know, as those above do. What the node's description says of
// addresses and routes is then the machine's own business.
type Boot func(context.Context, *Running, []Tap) (Machine, error)

// Machine runs programs inside.
type Machine interface {
	remote.Starter
	// Stop ends the machine at once.
	Stop()
}

// Tap is a port of a machine: a tap device in the node's namespace, which the machine opens.
type Tap struct {
	Port
	MTU    int    // bytes
	Device string // its name
}

const (
	machineSocket = "machine.sock"     // in the node's directory: where Exec of other processes reaches the machine
	guestDir      = "/run/minne-guest" // inside a machine: what concerns it alone
)

// enter boots the machine of a node, and prepares it as nodes of the host's kernel are prepared.
func (l *Lab) enter(ctx context.Context, c Node, links []Link) error {
	n := l.nodes[c.Name]
	var taps []Tap
	for _, cable := range links {
		for _, p := range []Port{cable.A, cable.B} {
			if p.Node != c.Name {
				continue
			}
			t, err := n.tapFor(p, len(taps))
			if err != nil {
				return fmt.Errorf("port %s.%s: %w", p.Node, p.Name, err)
			}
			if t.MTU = cable.MTU; t.MTU == 0 {
				t.MTU = 1500
			}
			taps = append(taps, t)
		}
	}
	start := c.Boot
	if start == nil {
		start = func(ctx context.Context, n *Running, taps []Tap) (Machine, error) {
			return boot[c.Machine](ctx, n, taps, l.binary)
		}
	}
	m, err := start(ctx, n, taps)
	if err != nil {
		return err
	}
	n.machine = m
	l.OnClose(func() error { m.Stop(); return nil })
	if err := n.serve(); err != nil || c.Boot != nil || c.Machine == QEMU {
		return err // the router's configuration does the rest
	}
	g := guest{Node: c}
	for _, t := range taps {
		g.Ports = append(g.Ports, guestPort{t.Port, t.MTU})
	}
	return n.furnish(ctx, g)
}

// furnish has the machine give its ports their names and addresses, and do what concerns the node as a whole.
func (n *Running) furnish(ctx context.Context, g guest) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	file := filepath.Join(n.Dir, "guest.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	_, err = n.Run(ctx, guestProgram, "lab", "guest", file)
	return err
}

// tapFor makes the n-th tap of a machine and joins it to a port.
func (n *Running) tapFor(p Port, number int) (t Tap, err error) {
	t = Tap{Port: p, Device: fmt.Sprintf("tap%d", number)}
	err = n.Do(func() error {
		name := t.Device
		if err := n.makeTap(name); err != nil {
			return err
		}
		inner, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		outer, err := netlink.LinkByName(p.Name)
		if err != nil {
			return err
		}
		for _, name := range []string{name, p.Name} {
			if err := sysctl("net/ipv6/conf/"+name+"/disable_ipv6", "1"); err != nil {
				return err
			}
		}
		// The machine may send tags on top of what the cable's MTU says; the other end of the cable judges that.
		if err := errors.Join(netlink.LinkSetMTU(inner, 65521), netlink.LinkSetUp(inner), netlink.LinkSetUp(outer)); err != nil {
			return err
		}
		return errors.Join(n.join(outer, inner), n.join(inner, outer))
	})
	return t, err
}

// makeTap makes a tap device that stays when the machine closes it, as it does when its port goes down.
func (n *Running) makeTap(name string) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if n.queues() > 1 {
		flags |= unix.IFF_MULTI_QUEUE
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("tap device %s: %w", name, err)
	}
	return unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1)
}

// join sends on by one port what arrives at another, before anything else sees it.
func (n *Running) join(from, to netlink.Link) error {
	wire, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "lab_wire", Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(to.Attrs().Index)),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
	}})
	if err != nil {
		return err
	}
	defer wire.Close()
	on, err := link.AttachTCX(link.TCXOptions{Interface: from.Attrs().Index, Program: wire, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		return fmt.Errorf("join %s to %s: %w", from.Attrs().Name, to.Attrs().Name, err)
	}
	n.lab.OnClose(on.Close)
	return nil
}

// serve lets other processes run programs in the node's machine, for Exec.
func (n *Running) serve() error {
	listener, err := net.Listen("unix", filepath.Join(n.Dir, machineSocket))
	if err != nil {
		return err
	}
	n.lab.OnClose(listener.Close)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				remote.Serve(c, n.machine) //nolint:errcheck // whoever asked has gone
				c.Close()
			}()
		}
	}()
	return nil
}

// runIn runs a program in the machine to its end.
func (n *Running) runIn(ctx context.Context, argv []string) (string, error) {
	var stdout, stderr strings.Builder
	p, err := n.machine.Start(argv, nil, &stdout, &stderr)
	if err != nil {
		return "", fmt.Errorf("in %s: %s: %w", n.Name, strings.Join(argv, " "), err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
		case <-ctx.Done():
			p.Signal(syscall.SIGKILL)
		}
	}()
	code, err := p.Wait()
	switch {
	case ctx.Err() != nil:
		return stdout.String(), fmt.Errorf("in %s: %s: %w", n.Name, strings.Join(argv, " "), ctx.Err())
	case err != nil:
		return stdout.String(), fmt.Errorf("in %s: %s: %w", n.Name, strings.Join(argv, " "), err)
	case code != 0:
		return stdout.String(), &ExitError{Code: code, text: fmt.Sprintf("in %s: %s: exit status %d: %s",
			n.Name, strings.Join(argv, " "), code, lastLines(stderr.String()+stdout.String(), 12))}
	}
	return stdout.String(), nil
}

// execIn runs a program in the machine of another process's lab and exits with its code.
func execIn(socket string, argv []string) error {
	c, err := net.DialTimeout("unix", socket, 5*time.Second)
	if err != nil {
		return err
	}
	p, err := remote.NewLine(c).Start(argv, os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		return err
	}
	code, err := p.Wait()
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

// machineLine is a machine that is reached by a line to the agent inside.
type machineLine struct {
	*remote.Line
	process *Process
	line    io.Closer
}

// AgentLine makes a line between a machine, which gets the far end, and the lab.
func AgentLine() (near, far *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.SetNonblock(pair[0], true); err != nil { // for its deadline
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "line"), os.NewFile(uintptr(pair[1]), "line"), nil
}

// Answering returns the machine that a process is once its agent has said its first line, at most until the given time has
// passed. The machine owns the line and the process; when it does not answer, both are ended.
func Answering(ctx context.Context, p *Process, line *os.File, most time.Duration) (Machine, error) {
	m := &machineLine{process: p, line: line}
	if err := awaitAgent(ctx, line, most); err != nil {
		m.Stop()
		return nil, fmt.Errorf("the machine does not answer: %w; its console:\n%s", err, tail(p.log, 12))
	}
	m.Line = remote.NewLine(line)
	return m, nil
}

// awaitAgent returns when the agent has said its first line.
func awaitAgent(ctx context.Context, line *os.File, most time.Duration) error {
	end := time.Now().Add(most)
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

// StartMachine starts the process that a machine is, in the node's namespace and on any CPU of cpus (all, when empty). What it prints goes
// to a file in the node's directory. files are its descriptors from 3 on.
func (n *Running) StartMachine(name string, argv, env []string, files []*os.File, cpus ...int) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(n.Dir, name+".log"), done: make(chan struct{})}
	console, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = env
	// Not the file itself: User-Mode Linux can't wait for one, and writes nothing.
	p.cmd.Stdout = struct{ io.Writer }{console}
	p.cmd.Stderr = p.cmd.Stdout
	p.cmd.ExtraFiles = files
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = n.Do(func() error {
		var set unix.CPUSet
		for _, c := range cpus {
			set.Set(c)
		}
		if len(cpus) > 0 {
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				return fmt.Errorf("pin to CPUs: %w", err)
			}
		}
		return p.cmd.Start()
	})
	if err != nil {
		console.Close()
		return nil, fmt.Errorf("start %s for %s: %w", name, n.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		console.Close()
		close(p.done)
	}()
	return p, nil
}

func (m *machineLine) Stop() {
	m.line.Close() // the agent ends the machine when the line does
	select {
	case <-m.process.done:
	case <-time.After(2 * time.Second):
	}
	syscall.Kill(-m.process.Pid(), syscall.SIGKILL) //nolint:errcheck // nobody may be left
	<-m.process.done
}
