// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"minne/internal/testing/testimage"
)

// TestFastPath has two ports with as many queues as native XDP wants on two CPUs, and
// hosts in namespaces behind them: the fast path is native and forwards their packets.
func TestFastPath(t *testing.T) {
	extra := queued(t, 4)
	m := testimage.Boot(t, testimage.Options{Disk: configured(t), CPUs: 2, Extra: extra})
	up(m)
	run := func(command string) string { return onHost(t, command) }
	run(`ip netns add lan; ip link set tap1 netns lan
		ip address add 198.51.100.9/24 dev tap0; ip link set tap0 up; ip route add 192.0.2.0/24 via 198.51.100.2
		ip -n lan address add 192.0.2.10/24 dev tap1; ip -n lan link set tap1 up; ip -n lan route add default via 192.0.2.1`)
	defer run("ip netns delete lan")
	out := m.Run("minne show fast-path")
	t.Log(out)
	if strings.Count(out, "native") < 2 {
		t.Errorf("the fast path is not native on both ports:\n%s", out)
	}
	before := m.Run("minne show fast-path --json")
	t.Log(run("ping -i 0.2 -c 50 -w 120 192.0.2.10"))
	after := m.Run("minne show fast-path --json; minne show drops; minne show interfaces")
	t.Logf("before:\n%s\nafter:\n%s", before, after)
}

// queued are two ports with this many queues, tap0 and tap1 on this side; options are those of the card.
func queued(t *testing.T, queues int, options ...string) (extra []string) {
	t.Helper()
	for i := range 2 {
		onHost(t, fmt.Sprintf("ip tuntap add dev tap%d mode tap multi_queue", i))
		t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", fmt.Sprintf("tap%d", i)).Run() }) // gone with a namespace
		extra = append(extra,
			"-netdev", fmt.Sprintf("tap,id=t%d,ifname=tap%d,script=no,downscript=no,queues=%d,vhost=off", i, i, queues),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=t%d,mac=%s,mq=on,vectors=%d,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off%s", i, testimage.PortMAC(i), 2*queues+2,
				strings.Join(append([]string{""}, options...), ",")))
	}
	return extra
}

func onHost(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}
