// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A node in QEMU: a PC of software that boots the router's own disk image, with its kernel, its drivers and its FRR.
// QEMU emulates the processor instruction by instruction (TCG): what happens is what happens on a PC, how
// fast says nothing. The image is read and never written; what the router writes lives until the machine ends.
//
// The lab logs in on the serial console as a person would: a router without a configuration and without a password lets
// whoever stands in front of it in. There it starts the agent on a second line, a port of virtio. When the
// agent's line ends, with the lab or with its process, the router powers itself off.

const (
	qemuProgram = "qemu-system-x86_64"
	qemuMemory  = 512 // MiB
	qemuCPUs    = 2
	// qemuQueues is how many each virtio port has: native XDP wants one more for each CPU to send by.
	qemuQueues = 2 * qemuCPUs
	qemuBoot   = 6 * time.Minute // at most, until the agent answers: twenty times what it takes on an idle host
)

// DefaultCard is the model of network cards in QEMU, by QEMU's name, unless a node says another.
const DefaultCard = "virtio-net-pci"

// slip is what a kernel says on its console when QEMU 7.2 has lost it: Linux patches its instructions while it starts, and
// one of several emulated processors may meet the breakpoint of a patch when it has been taken away already. That was
// seen in 2 of 250 starts; the machine is started again then, at most qemuTries times in all.
const (
	slip      = "Oops: int3"
	qemuTries = 3
)

// bootQEMU starts the image.
func bootQEMU(ctx context.Context, n *Running, taps []Tap, _ string) (Machine, error) {
	if err := needProgram(qemuProgram, "qemu-system-x86"); err != nil {
		return nil, err
	}
	if n.image == "" {
		return nil, errors.New("a node in QEMU needs the router's disk image, which ./dev image makes in Minne's source tree")
	}
	if _, err := os.Stat(n.image); err != nil {
		return nil, fmt.Errorf("the router's disk image: %w: ./dev image makes it in Minne's source tree", err)
	}
	if !HasCard(n.card) {
		return nil, fmt.Errorf("this host's QEMU has no network card %s: %s -device help lists those it has", n.card, qemuProgram)
	}
	for try := 1; ; try++ {
		m, said, err := n.tryQEMU(ctx, taps)
		if err == nil || try == qemuTries || !strings.Contains(said, slip) {
			return m, err
		}
	}
}

// tryQEMU starts the machine once; said is what its console said until the agent answered, or the start failed.
func (n *Running) tryQEMU(ctx context.Context, taps []Tap) (m Machine, said string, err error) {
	agent, agentFar, err := AgentLine()
	if err != nil {
		return nil, "", err
	}
	defer agentFar.Close()
	screen, screenFar, err := AgentLine()
	if err != nil {
		agent.Close()
		return nil, "", err
	}
	defer screenFar.Close()
	p, err := n.startQEMU(taps, agentFar, screenFar)
	if err != nil {
		agent.Close()
		screen.Close()
		return nil, "", err
	}
	c := newConsole(screen)
	if err := c.startAgent(ctx, p); err != nil {
		(&machineLine{process: p, line: agent}).Stop()
		return nil, c.all(), fmt.Errorf("the router's console: %w\n%s\n%s", err, lastLines(c.all(), 12), tail(p.log, 4))
	}
	m, err = Answering(ctx, p, agent, qemuBoot)
	if err != nil {
		return nil, c.all(), fmt.Errorf("%w\n%s", err, lastLines(c.all(), 12))
	}
	if err := n.namePorts(ctx, m, taps); err != nil {
		m.Stop()
		return nil, c.all(), err
	}
	return m, c.all(), nil
}

// HasCard says whether this host's QEMU has a model of network card.
func HasCard(card string) bool {
	out, err := exec.Command(qemuProgram, "-device", "help").Output()
	return err == nil && strings.Contains(string(out), `name "`+card+`"`)
}

// startQEMU starts the emulator. The cards have the MAC addresses of the node's ports, so that to the rest of the lab both are one.
func (n *Running) startQEMU(taps []Tap, agent, screen *os.File) (*Process, error) {
	argv := []string{qemuProgram, "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
		"-smp", fmt.Sprint(qemuCPUs), "-m", fmt.Sprint(qemuMemory), "-nodefaults", "-display", "none", "-no-reboot",
		"-drive", "if=virtio,format=raw,snapshot=on,file=" + n.image,
		"-chardev", "socket,id=screen,fd=4,logfile=" + filepath.Join(n.Dir, "console.log"), "-serial", "chardev:screen",
		"-device", "virtio-serial-pci", "-chardev", "socket,id=agent,fd=3", "-device", "virtserialport,chardev=agent,name=minne.agent"}
	for i, tap := range taps {
		mac, err := n.portMAC(tap.Name)
		if err != nil {
			return nil, err
		}
		back := fmt.Sprintf("tap,id=n%d,ifname=%s,script=no,downscript=no,vhost=off", i, tap.Device)
		card := fmt.Sprintf("%s,netdev=n%d,mac=%s", n.card, i, mac)
		if n.queues() > 1 {
			back += fmt.Sprintf(",queues=%d", qemuQueues)
			// Without guest_*: a card that hands on several packets as one can have no native XDP.
			card += fmt.Sprintf(",mq=on,vectors=%d,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off", 2*qemuQueues+2)
		}
		argv = append(argv, "-netdev", back, "-device", card)
	}
	life, lifeFar, err := AgentLine()
	if err != nil {
		return nil, err
	}
	defer lifeFar.Close()
	n.lab.OnClose(life.Close)
	// The emulator's memory is bounded by -m; other work on this host goes before it.
	argv = append([]string{"nice", "-n", "5", "sh", "-c", mortal, "qemu"}, argv...)
	return n.StartMachine("qemu", argv, os.Environ(), []*os.File{agent, screen, lifeFar})
}

// mortal runs a program that ends with the lab's process, however that ends: nobody else holds the other end of descriptor 5.
const mortal = `"$@" 5<&- & program=$!
{ read -r never <&5; kill -9 $program; } 2>/dev/null 3<&- 4<&- & watch=$!
exec 3<&- 4<&- 5<&-
wait $program; code=$?
kill $watch 2>/dev/null; exit $code`

func (n *Running) portMAC(port string) (string, error) {
	_, mac, err := n.Port(port)
	return mac.String(), err
}

// queues is how many a port of the node's machine has.
func (n *Running) queues() int {
	if n.kind == QEMU && n.card == DefaultCard {
		return qemuQueues
	}
	return 1
}

// namePorts gives the machine's cards, found by their MAC addresses, the names that the cables have.
func (n *Running) namePorts(ctx context.Context, m Machine, taps []Tap) error {
	var script strings.Builder
	for i, tap := range taps {
		mac, err := n.portMAC(tap.Name)
		if err != nil {
			return err
		}
		// First to a name that no other card can have.
		fmt.Fprintf(&script, "dev=$(ip -o link | awk -F': ' '/link\\/ether %s/ {print $2; exit}'); test -n \"$dev\" || { echo no driver for card %d, %s >&2; exit 1; }\n", mac, i, n.card)
		fmt.Fprintf(&script, "ip link set \"$dev\" down; ip link set \"$dev\" name lab%d\n", i)
	}
	for i, tap := range taps {
		fmt.Fprintf(&script, "ip link set lab%d name %s; ip link set %s mtu %d up\n", i, tap.Name, tap.Name, tap.MTU)
	}
	var out bytes.Buffer
	p, err := m.Start([]string{"sh", "-ec", script.String()}, nil, &out, &out)
	if err != nil {
		return err
	}
	if code, err := p.Wait(); err != nil || code != 0 {
		return errors.Join(fmt.Errorf("name the ports of %s: exit status %d: %s", n.Name, code, lastLines(out.String(), 5)), err)
	}
	return ctx.Err()
}

// console is the router's serial line, on which somebody reads and types.
type console struct {
	line io.ReadWriteCloser

	mu    sync.Mutex
	said  []byte
	seen  int // up to where await has looked
	ended bool
	more  chan struct{}
}

func newConsole(line io.ReadWriteCloser) *console {
	c := &console{line: line, more: make(chan struct{}, 1)}
	go c.listen()
	return c
}

// maxSaid is how much of a console is kept at least, in bytes; a log has all of it.
const maxSaid = 64 << 10

// listen reads as long as there is a console: one that nobody reads would hold the router up.
func (c *console) listen() {
	defer c.line.Close()
	for b := make([]byte, 4096); ; {
		got, err := c.line.Read(b)
		c.mu.Lock()
		c.said, c.ended = append(c.said, b[:got]...), err != nil
		if over := len(c.said) - 2*maxSaid; over > 0 {
			over += maxSaid
			c.said, c.seen = append([]byte(nil), c.said[over:]...), max(0, c.seen-over)
		}
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (c *console) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ReplaceAll(string(c.said), "\r", "")
}

// await waits until the console says something.
func (c *console) await(ctx context.Context, p *Process, text string) error {
	for {
		c.mu.Lock()
		at, ended := bytes.Index(c.said[c.seen:], []byte(text)), c.ended
		if at >= 0 {
			c.seen += at + len(text)
		}
		c.mu.Unlock()
		switch {
		case at >= 0:
			return nil
		case ended:
			return fmt.Errorf("it ended before it printed %q", text)
		}
		select {
		case <-c.more:
		case <-p.Done():
			return p.Failed()
		case <-ctx.Done():
			return fmt.Errorf("it did not print %q: %w", text, ctx.Err())
		}
	}
}

// startAgent logs in and starts the agent on the port of virtio.
func (c *console) startAgent(ctx context.Context, p *Process) error {
	ctx, cancel := context.WithTimeout(ctx, qemuBoot)
	defer cancel()
	const shell = `stty -echo; dmesg -n 1; port=$(ls /sys/class/virtio-ports); test -n "$port" && echo agent''-port || echo no''-port; ` +
		`(minne lab guest agent /dev/$port </dev/null >/dev/null 2>&1; poweroff -f) & ` + "\n"
	for _, step := range []struct{ said, typed string }{{"s opens a shell: ", "s\n"}, {"# ", shell}, {"agent-port", ""}} {
		if err := c.await(ctx, p, step.said); err != nil {
			return err
		}
		if _, err := io.WriteString(c.line, step.typed); err != nil {
			return err
		}
	}
	return nil
}
