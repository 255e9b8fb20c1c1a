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
)

// placement says which processor does what.
type placement struct {
	generator, device int
	sink              int // the device's when there are only two
}

// errOneCPU is what an open loop can't do without.
var errOneCPU = errors.New("this measurement needs two processors, one to send and one for the device, and this machine gives it one: " +
	"\"minne lab cost\" and \"minne lab compare\" measure on one")

// place chooses from the processors that this process may run on.
func place() (placement, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return placement{}, fmt.Errorf("ask for the processors: %w", err)
	}
	var cpus []int
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) < 2 {
		return placement{}, errOneCPU
	}
	p := placement{generator: cpus[0], device: cpus[1], sink: cpus[1]}
	if len(cpus) > 2 {
		p.sink = cpus[2]
	}
	return p, nil
}

// describe tells what runs where.
func (p placement) describe() []string {
	if p.sink == p.device {
		return []string{fmt.Sprintf("generator on CPU %d", p.generator), fmt.Sprintf("device and sink on CPU %d", p.device)}
	}
	return []string{fmt.Sprintf("generator on CPU %d", p.generator), fmt.Sprintf("device on CPU %d", p.device), fmt.Sprintf("sink on CPU %d", p.sink)}
}

// first is the nice value of the threads that must not wait for others: those of
// generators and receive queues. It is not a real-time priority, because the kernel
// takes a twentieth of the time away from real-time threads that are always busy,
// as a saturated device is, and because a router's own overload runs at an ordinary
// priority too (ksoftirqd).
const first = -20

// thread gives a port's receive queue a kernel thread on one processor.
// The queue must be in use already: the port has an XDP program or GRO.
func thread(ctx context.Context, node *lab.Running, port string, cpu int) error {
	// The setting is a file of sysfs, which shows the namespace in which it was
	// mounted: "ip netns exec" mounts it anew.
	if _, err := node.Run(ctx, "ip", "netns", "exec", node.Namespace, "sh", "-c", "echo 1 > /sys/class/net/"+port+"/threaded"); err != nil {
		return fmt.Errorf("give %s a receive thread (kernel 5.12 or later has them): %w", port, err)
	}
	index, _, err := node.Port(port)
	if err != nil {
		return err
	}
	pids, err := receiveThreads(node, port, index)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := pin(pid, cpu); err != nil {
			return fmt.Errorf("receive thread of %s: %w", port, err)
		}
	}
	return nil
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
func receiveThreads(node *lab.Running, port string, index int) ([]int, error) {
	var pids []int
	err := node.Do(func() (err error) { pids, err = napiThreads(index); return err })
	if err == nil && len(pids) > 0 {
		return pids, nil
	}
	if err != nil && !errors.Is(err, errNoNetdev) {
		return nil, err
	}
	pids = threadsNamed("/proc", "napi/"+port+"-")
	switch len(pids) {
	case 0:
		return nil, fmt.Errorf("port %s has no receive thread although it was asked to have one", port)
	case 1:
		return pids, nil
	}
	return nil, fmt.Errorf("several ports named %s on this machine have receive threads, and this kernel (before 6.7) does not say whose they are: "+
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
