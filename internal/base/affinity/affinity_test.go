// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

// The names that drivers give to the interrupts of their queues, and to others.
func TestQueueOf(t *testing.T) {
	for name, want := range map[string]string{
		"eth0-TxRx-3":                       "3 both",
		"i40e-enp1s0f0-TxRx-11":             "11 both",
		"ice-enp1s0f0np0-TxRx-7":            "7 both",
		"enp1s0-Tx-Rx-2":                    "2 both",
		"eth1-rx-0":                         "0 receive",
		"eth1-tx-1":                         "1 transmit",
		"virtio2-input.4":                   "4 receive",
		"virtio2-output.4":                  "4 transmit",
		"mlx5_comp9@pci:0000:03:00.0":       "9 both",
		"mlx5_async0@pci:0000:03:00.0":      "",
		"virtio2-config":                    "",
		"eth0":                              "",
		"i40e-0000:01:00.0:misc":            "",
		"ena-mgmnt@pci:0000:00:05.0":        "",
		"PCIe PME":                          "",
		"nfp-0000:04:00.0-exn":              "",
		"vmxnet3-event-3":                   "",
		"eth0-rxtx-1":                       "1 both",
		"ixgbe-0000:05:00.0-mbx-0":          "",
		"mlx5_comp99999999999999999999@pci": "",
	} {
		got := ""
		if queue, direction, ok := queueOf(name); ok {
			got = fmt.Sprint(queue, " ", direction)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestListsAndMasks(t *testing.T) {
	for list, mask := range map[string]string{"": "0", "0": "1", "0-3": "f", "1,3-5": "3a", "31-32": "1,80000000", "64": "1,00000000,00000000"} {
		cpus, err := ParseList(list + "\n")
		if err != nil || List(cpus) != list || Mask(cpus) != mask {
			t.Errorf("%q: %v %v, %q %q", list, cpus, err, List(cpus), Mask(cpus))
		}
		if again, err := ParseMask(mask + "\n"); err != nil || !slices.Equal(again, cpus) {
			t.Errorf("%q: %v %v", mask, again, err)
		}
	}
	for _, wrong := range []string{"a", "3-1", "-1", "1-", "99999"} {
		if cpus, err := ParseList(wrong); err == nil {
			t.Errorf("%q: %v", wrong, cpus)
		}
	}
}

// A virtio card of two queue pairs, whose interrupts are those of the PCI device below.
func TestMachine(t *testing.T) {
	m := Machine{t.TempDir()}
	file := func(path, text string) {
		t.Helper()
		path = filepath.Join(m.Root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const pci = "sys/devices/pci0000:00/0000:00:03.0"
	file("sys/devices/system/cpu/online", "0-3\n")
	file(pci+"/virtio0/net/eth0/ifindex", "2\n")
	file(pci+"/virtio0/net/eth0/queues/tx-0/xps_cpus", "0\n")
	file(pci+"/virtio0/net/eth0/queues/tx-1/xps_cpus", "c\n")
	for number, name := range map[string]string{"24": "virtio0-config", "25": "virtio0-input.0", "26": "virtio0-output.0", "27": "virtio0-input.1", "28": "virtio0-output.1"} {
		file(pci+"/msi_irqs/"+number, "msix\n")
		file("sys/kernel/irq/"+number+"/actions", name+"\n")
		file("proc/irq/"+number+"/smp_affinity_list", "0-3\n")
	}
	if err := os.MkdirAll(m.path("sys/class/net"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"sys/class/net/eth0": pci + "/virtio0/net/eth0", pci + "/virtio0/net/eth0/device": pci + "/virtio0"} {
		if err := os.Symlink(m.path(to), m.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	if online, err := m.Online(); err != nil || !slices.Equal(online, []int{0, 1, 2, 3}) {
		t.Errorf("%v %v", online, err)
	}
	all := []int{0, 1, 2, 3}
	want := []Interrupt{{25, 0, Receive, all}, {26, 0, Transmit, all}, {27, 1, Receive, all}, {28, 1, Transmit, all}}
	if got, err := m.Interrupts("eth0", 2); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := m.Senders("eth0", 2); err != nil || !reflect.DeepEqual(got, []Sender{{0, nil}, {1, []int{2, 3}}}) {
		t.Errorf("%v, %v", got, err)
	}
	// The link of that name in another network namespace.
	if got, err := m.Interrupts("eth0", 3); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	if err := m.SetInterrupt(27, []int{0, 2}); err != nil {
		t.Error(err)
	}
	if err := m.SetSender("eth0", 0, []int{0, 1}); err != nil {
		t.Error(err)
	}
	if got, _ := m.Interrupts("eth0", 2); len(got) != 4 || !slices.Equal(got[2].CPUs, []int{0, 2}) {
		t.Errorf("%v", got)
	}
	if err := m.SetInterrupt(99, []int{0}); err == nil {
		t.Error("an interrupt that is not there")
	}
}

// A program is found by its processors, and is elsewhere after it was tied. One that has just begun is not looked at.
func TestPrograms(t *testing.T) {
	online, err := Here.Online()
	if err != nil || len(online) < 2 {
		t.Fatalf("%v, %v: expected two processors", online, err)
	}
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	last := online[len(online)-1:]
	if err := Tie(c.Process.Pid, last); err != nil {
		t.Fatal(err)
	}
	if cpus, err := Of(c.Process.Pid); err != nil || !slices.Equal(cpus, last) {
		t.Errorf("%v, %v", cpus, err)
	}
	found := func() bool {
		threads, err := Programs(last)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(threads, c.Process.Pid)
	}
	if found() {
		t.Error("found at once")
	}
	for end := time.Now().Add(time.Minute); !found(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not found")
		}
	}
	if err := Tie(1<<22, last); err != nil { // above the highest pid
		t.Errorf("one that is not there: %v", err)
	}
}
