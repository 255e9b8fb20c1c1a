// SPDX-License-Identifier: Apache-2.0

// Package affinity reads and sets which processors serve the queues of network devices: by the interrupts of the device
// (/proc/irq/N/smp_affinity_list) and by the processors that send through a transmit queue (XPS,
// /sys/class/net/NAME/queues/tx-N/xps_cpus). Processors are counted from 0, as Linux does.
package affinity

import (
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Direction is what a queue is for.
type Direction string

// The directions. Most cards have one interrupt for a receive queue and its transmit queue.
const (
	Receive  Direction = "receive"
	Transmit Direction = "transmit"
	Both     Direction = "both"
)

// Interrupt is the interrupt of one queue, or of a pair of queues.
type Interrupt struct {
	Number    int
	Queue     int // from 0
	Direction Direction
	CPUs      []int // that may take it, ascending
}

// Sender is a transmit queue, and the processors that send through it; none for all.
type Sender struct {
	Queue int
	CPUs  []int
}

// Machine is the files of a machine below its root directory.
type Machine struct{ Root string }

// Here is the machine that the program runs on.
var Here = Machine{"/"}

func (m Machine) path(parts ...string) string {
	return filepath.Join(append([]string{m.Root}, parts...)...)
}

// Online returns the processors that run.
func (m Machine) Online() ([]int, error) {
	text, err := os.ReadFile(m.path("sys/devices/system/cpu/online"))
	if err != nil {
		return nil, err
	}
	return ParseList(string(text))
}

// device is the directory of a link in /sys, and "" where /sys is that of another network namespace.
func (m Machine) device(name string, index int) string {
	dir := m.path("sys/class/net", name)
	text, err := os.ReadFile(filepath.Join(dir, "ifindex"))
	if err != nil || strings.TrimSpace(string(text)) != strconv.Itoa(index) {
		return ""
	}
	return dir
}

// How drivers name the interrupts of their queues: eth0-TxRx-3, i40e-eth0-TxRx-3, eth0-rx-0, virtio1-input.0,
// mlx5_comp3@pci:0000:03:00.0. The last number is the queue. Those for events of the card have none, or another word.
var (
	queueNumber = regexp.MustCompile(`[-._p](\d+)$`)
	noQueue     = regexp.MustCompile(`(?i)async|config|misc|mgmnt|event|page|cmd|aeq|ceq|mbx|safe`)
	sends       = regexp.MustCompile(`(?i)([-_.]tx[-_.]?|output\.)\d+$`)
	sendsAlso   = regexp.MustCompile(`(?i)(tx-?rx|rx-?tx)[-_.]?\d+$`)
	receives    = regexp.MustCompile(`(?i)([-_.]rx[-_.]?|input\.)\d+$`)
)

// queueOf reads which queue an interrupt is for from its name, as the driver gave it.
func queueOf(name string) (queue int, direction Direction, ok bool) {
	name, _, _ = strings.Cut(name, "@")
	found := queueNumber.FindStringSubmatch(name)
	if found == nil || noQueue.MatchString(name) {
		return 0, "", false
	}
	queue, err := strconv.Atoi(found[1])
	if err != nil {
		return 0, "", false
	}
	switch {
	case sendsAlso.MatchString(name):
		return queue, Both, true
	case sends.MatchString(name):
		return queue, Transmit, true
	case receives.MatchString(name):
		return queue, Receive, true
	}
	return queue, Both, true
}

// Interrupts returns those of a device's queues, by queue; none for a device without hardware. index is the link's.
func (m Machine) Interrupts(name string, index int) (list []Interrupt, err error) {
	dir := m.device(name, index)
	if dir == "" {
		return nil, nil
	}
	at, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil {
		return nil, nil // a device without hardware
	}
	// A virtio device has the interrupts of the PCI device that it sits on.
	var numbers []fs.DirEntry
	for range 3 {
		if numbers, err = os.ReadDir(filepath.Join(at, "msi_irqs")); err == nil {
			break
		}
		at = filepath.Dir(at)
	}
	for _, n := range numbers {
		number, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		action, err := os.ReadFile(m.path("sys/kernel/irq", n.Name(), "actions"))
		if err != nil {
			continue
		}
		queue, direction, ok := queueOf(strings.TrimSpace(string(action)))
		if !ok || strings.TrimSpace(string(action)) == name { // the card's own, of a name as enp3s0
			continue
		}
		text, err := os.ReadFile(m.interrupt(number))
		if errors.Is(err, fs.ErrNotExist) {
			continue // given back meanwhile
		}
		if err != nil {
			return nil, err
		}
		cpus, err := ParseList(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.interrupt(number), err)
		}
		list = append(list, Interrupt{number, queue, direction, cpus})
	}
	slices.SortFunc(list, func(a, b Interrupt) int {
		if a.Queue != b.Queue {
			return a.Queue - b.Queue
		}
		return a.Number - b.Number
	})
	return list, nil
}

func (m Machine) interrupt(number int) string {
	return m.path("proc/irq", strconv.Itoa(number), "smp_affinity_list")
}

// SetInterrupt has processors take an interrupt; the card chooses one of them.
func (m Machine) SetInterrupt(number int, cpus []int) error {
	return write(m.interrupt(number), List(cpus))
}

// Senders returns the transmit queues of a device; none for one with a single queue. index is the link's.
func (m Machine) Senders(name string, index int) (list []Sender, err error) {
	dir := m.device(name, index)
	if dir == "" {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "queues/tx-*/xps_cpus"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		queue, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "tx-"))
		if err != nil {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil // a device with one queue has no such list
		}
		cpus, err := ParseMask(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, Sender{queue, cpus})
	}
	slices.SortFunc(list, func(a, b Sender) int { return a.Queue - b.Queue })
	return list, nil
}

// SetSender has processors send through a transmit queue.
func (m Machine) SetSender(name string, queue int, cpus []int) error {
	return write(m.path("sys/class/net", name, "queues", "tx-"+strconv.Itoa(queue), "xps_cpus"), Mask(cpus))
}

// write writes a value into a file of the kernel, which is there.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// mostCPUs bounds what is read.
const mostCPUs = 8192

// ParseList reads a list of processors as "0-3,8".
func ParseList(text string) (cpus []int, err error) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		one, err1 := strconv.Atoi(first)
		two, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || one < 0 || two < one || two >= mostCPUs {
			return nil, fmt.Errorf("%q is no list of processors", text)
		}
		for c := one; c <= two; c++ {
			cpus = append(cpus, c)
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// List writes processors as "0-3,8"; cpus is ascending.
func List(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		part := strconv.Itoa(cpus[i])
		if j > i {
			part += "-" + strconv.Itoa(cpus[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// ParseMask reads a mask as the kernel writes it: hexadecimal, a comma after each 32 bits, the highest first.
func ParseMask(text string) (cpus []int, err error) {
	mask, ok := new(big.Int).SetString(strings.ReplaceAll(strings.TrimSpace(text), ",", ""), 16)
	if !ok || mask.Sign() < 0 || mask.BitLen() > mostCPUs {
		return nil, fmt.Errorf("%q is no mask of processors", text)
	}
	for c := range mask.BitLen() {
		if mask.Bit(c) == 1 {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// Mask writes processors as ParseMask reads them.
func Mask(cpus []int) string {
	mask := new(big.Int)
	for _, c := range cpus {
		mask.SetBit(mask, c, 1)
	}
	text := mask.Text(16)
	var groups []string
	for len(text) > 8 {
		groups = append([]string{text[len(text)-8:]}, groups...)
		text = text[:len(text)-8]
	}
	return strings.Join(append([]string{text}, groups...), ",")
}
