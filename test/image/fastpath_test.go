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
	run := func(command string) string {
		t.Helper()
		out, err := exec.Command("sh", "-ec", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	extra := []string{}
	for i := range 2 {
		run(fmt.Sprintf("ip tuntap add dev tap%d mode tap multi_queue", i))
		extra = append(extra,
			"-netdev", fmt.Sprintf("tap,id=t%d,ifname=tap%d,script=no,downscript=no,queues=4,vhost=off", i, i),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=t%d,mac=%s,mq=on,vectors=10,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off", i, testimage.PortMAC(i)))
	}
	m := testimage.Boot(t, testimage.Options{Disk: configured(t), CPUs: 2, Extra: extra})
	up(m)
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
