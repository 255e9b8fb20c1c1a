// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/subsystem/ports"
)

// placement says which processor does what. A lane is a generator with a receive
// queue of the device: several share a load that one processor can't send or forward.
type placement struct {
	generators []int // by lane
	device     []int // by lane; empty between network cards, whose interrupts the kernel places
	sink       int   // -1: those of the device
}

// MaxLanes is how many lanes a rig may have.
const MaxLanes = 16

// errOneCPU is what an open loop can't do without.
var errOneCPU = errors.New("this measurement needs two processors, one to send and one for the device, and this machine gives it one: " +
	"\"minne lab cost\" and \"minne lab compare\" measure on one")

// place gives generators and a device in a namespace processors of their own.
func place(cpus []int, lanes int) (placement, error) {
	switch {
	case len(cpus) < 2:
		return placement{}, errOneCPU
	case lanes > MaxLanes || len(cpus) < 2*lanes:
		return placement{}, fmt.Errorf("%d lanes need %d processors, two each, and this machine gives %d: expected 1 to %d lanes",
			lanes, 2*lanes, len(cpus), min(MaxLanes, len(cpus)/2))
	}
	p := placement{generators: cpus[:lanes], device: cpus[lanes : 2*lanes], sink: -1}
	if lanes == 1 && len(cpus) > 2 {
		p.sink = cpus[2]
	}
	return p, nil
}

// placeCards gives generators processors where the device has its own computer.
func placeCards(cpus []int, lanes int) (placement, error) {
	if lanes > MaxLanes || lanes > len(cpus) {
		return placement{}, fmt.Errorf("%d lanes need as many processors, and this machine gives %d: expected 1 to %d lanes", lanes, len(cpus), min(MaxLanes, len(cpus)))
	}
	return placement{generators: cpus[:lanes], sink: -1}, nil
}

// describe tells what runs where.
func (p placement) describe() []string {
	out := []string{"generator on CPU " + list(p.generators)}
	switch {
	case len(p.device) == 0:
	case p.sink < 0:
		out = append(out, "device and sink on CPU "+list(p.device))
	default:
		out = append(out, "device on CPU "+list(p.device), fmt.Sprintf("sink on CPU %d", p.sink))
	}
	return out
}

func list(cpus []int) string { return strings.Trim(fmt.Sprint(cpus), "[]") }

// first is the nice value of the threads that must not wait for others: those of
// generators and receive queues. It is not a real-time priority, because the kernel
// takes a twentieth of the time away from real-time threads that are always busy,
// as a saturated device is, and because a router's own overload runs at an ordinary
// priority too (ksoftirqd).
const first = -20

// thread gives each of a port's receive queues a kernel thread, in turn on the
// processors. Queues must be in use already: the port has an XDP program or GRO.
func thread(ctx context.Context, node *lab.Running, port string, cpus ...int) (pids []int, err error) {
	// The setting is a file of sysfs, which shows the namespace in which it was
	// mounted: "ip netns exec" mounts it anew.
	if _, err := node.Run(ctx, "ip", "netns", "exec", node.Namespace, "sh", "-c", "echo 1 > /sys/class/net/"+port+"/threaded"); err != nil {
		return nil, fmt.Errorf("give %s a receive thread (kernel 5.12 or later has them): %w", port, err)
	}
	index, _, err := node.Port(port)
	if err != nil {
		return nil, err
	}
	pids, err = receiveThreads(node, port, index, len(cpus))
	if err != nil {
		return nil, err
	}
	for i, pid := range pids {
		if err := pin(pid, cpus[i%len(cpus)]); err != nil {
			return nil, fmt.Errorf("receive thread of %s: %w", port, err)
		}
	}
	return pids, nil
}

// pin ties a thread to a processor and lets it go before others.
func pin(pid, cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(pid, &one); err != nil {
		return fmt.Errorf("tie to CPU %d: %w", cpu, err)
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, pid, first); err != nil {
		return fmt.Errorf("raise its priority: %w", err)
	}
	return nil
}

// receiveThreads returns the pids of a port's receive threads. The kernel tells
// them by netlink since 6.7; before, their name is all there is.
func receiveThreads(node *lab.Running, port string, index, queues int) ([]int, error) {
	var pids []int
	err := node.Do(func() (err error) { pids, err = ports.ReceiveThreads(index); return err })
	if err == nil && len(pids) > 0 {
		return pids, nil
	}
	if err != nil && !errors.Is(err, ports.ErrNoNetdev) {
		return nil, err
	}
	pids = threadsNamed("/proc", "napi/"+port+"-")
	switch {
	case len(pids) == 0:
		return nil, fmt.Errorf("port %s has no receive thread although one was requested", port)
	case len(pids) <= queues:
		return pids, nil
	}
	return nil, fmt.Errorf("several ports named %s on this machine have receive threads, and this kernel (before 6.7) does not report which thread is whose: "+
		"end the other labs (minne lab down)", port)
}

// threadsNamed finds kernel threads by the start of their name.
func threadsNamed(proc, prefix string) (pids []int) {
	names, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm")) // the pattern is well formed
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(text), prefix) {
			continue // it may have ended
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}
