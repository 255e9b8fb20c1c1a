// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"
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
var umlModules = []string{"ipv6", "veth", "8021q", "bridge", "bonding", "vrf", "dummy", "ip_gre", "tun", "pppoe", "ppp_async",
	"nf_conntrack", "nf_tables", "nft_ct", "nft_limit", "nft_log", "nft_reject", "nf_reject_ipv4", "nf_reject_ipv6", "nft_masq", "nft_redir", "overlay",
	"ifb", "sch_ingress", "cls_matchall", "act_mirred", "sch_cake", "sch_htb", "sch_fq_codel", "cls_bpf", "iptable_nat", "xt_MASQUERADE"}

var umlStarted atomic.Int32

// bootUML starts a User-Mode Linux whose first process is the agent of binary.
func bootUML(ctx context.Context, n *Running, taps []Tap, binary string) (Machine, error) {
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
	near, far, err := AgentLine()
	if err != nil {
		return nil, err
	}
	defer far.Close()
	p, err := n.startUML(tree, binary, taps, far)
	if err != nil {
		near.Close()
		return nil, err
	}
	n.lab.OnClose(func() error { return os.RemoveAll(filepath.Join(tree, "tmp", n.umid())) })
	return Answering(ctx, p, near, umlBoot)
}

// startUML starts the kernel: in the node's namespace, so that it ends with the node; with the files of
// the tree, whose C library it wants, and with the host's below /host; its taps are opened through /dev/net/tun.
func (n *Running) startUML(tree, binary string, taps []Tap, line *os.File) (*Process, error) {
	arguments := []string{"mem=" + umlMemory, "rootfstype=hostfs", "rootflags=/host", "ro", "uml_dir=/tmp/", "umid=" + n.umid(),
		"loglevel=4", "panic=-1", "con=null", "con0=fd:0,fd:1", "ssl=null", "ssl0=fd:3,fd:3"}
	for i, t := range taps {
		arguments = append(arguments, fmt.Sprintf("vec%d:transport=tap,ifname=%s,mtu=%d", i, t.Device, t.MTU+8))
	}
	arguments = append(arguments, "init="+binary, "--", "lab", "guest", "init", n.Dir)

	script := `mount --rbind / "$0/host" && mount --rbind /dev "$0/dev" && exec chroot "$0" /usr/bin/linux.uml "$@"`
	argv := append([]string{"unshare", "--mount", "sh", "-c", script, tree}, arguments...)
	// Unpinned, a User-Mode Linux kernel bounces between CPUs and runs ten times slower.
	cpus := runtime.NumCPU()
	pin := (cpus - int(umlStarted.Add(1))%cpus) % cpus
	return n.StartMachine("uml", argv, []string{"HOME=/tmp", "TMPDIR=/tmp", "PATH=" + os.Getenv("PATH")}, []*os.File{line}, pin)
}

// umid names the machine among those of the host.
func (n *Running) umid() string { return n.Namespace }
