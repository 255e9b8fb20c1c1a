// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"minne/internal/subsystem/services/flowexport"
)

// nfcapd is a collector of another make, on a host.
type nfcapd struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	out *bytes.Buffer
}

func (h *host) nfcapd(port int) *nfcapd {
	h.t.Helper()
	n := &nfcapd{t: h.t, dir: h.t.TempDir(), out: new(bytes.Buffer)}
	n.cmd = exec.Command("nfcapd", "-w", n.dir, "-p", strconv.Itoa(port), "-t", "3600")
	n.cmd.Stdout, n.cmd.Stderr = n.out, n.out
	if err := h.inside(n.cmd.Start); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if n.cmd.ProcessState == nil {
			_ = n.cmd.Process.Kill()
			_ = n.cmd.Wait()
		}
	})
	name := fmt.Sprintf("%04X 00000000:0000", port) // as /proc has sockets, behind the address
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/udp", n.cmd.Process.Pid))
		if err == nil && strings.Contains(string(sockets), name) {
			return n
		}
		if time.Now().After(until) {
			h.t.Fatalf("nfcapd does not listen: %s", n.out)
		}
	}
}

// nfFlow is a flow as nfdump prints it.
type nfFlow struct {
	Protocol    int    `json:"proto"`
	Source      string `json:"src4_addr"`
	Source6     string `json:"src6_addr"`
	Called      string `json:"dst4_addr"`
	Called6     string `json:"dst6_addr"`
	SourcePort  int    `json:"src_port"`
	CalledPort  int    `json:"dst_port"`
	Seen        string `json:"src4_xlt_ip"`
	Destination string `json:"dst4_xlt_ip"`
	SeenPort    string `json:"src_xlt_port"`
	DestPort    string `json:"dst_xlt_port"`
	Packets     uint64 `json:"in_packets"`
	Bytes       uint64 `json:"in_bytes"`
	BackPackets uint64 `json:"out_packets"`
	BackBytes   uint64 `json:"out_bytes"`
}

func (f nfFlow) String() string {
	return exported(fmt.Sprint(cmp.Or(f.Source, f.Source6), " ", f.SourcePort), fmt.Sprint(cmp.Or(f.Called, f.Called6), " ", f.CalledPort),
		strings.TrimSpace(f.Seen+" "+f.SeenPort), strings.TrimSpace(f.Destination+" "+f.DestPort),
		[2]uint64{f.Packets, f.BackPackets}, [2]uint64{f.Bytes, f.BackBytes})
}

// exported is a flow as text, for comparisons.
func exported(source, called, seen, destination string, packets, bytes [2]uint64) string {
	return fmt.Sprintf("%s > %s, translated %s > %s: %d packets, %d bytes", source, called, seen, destination, packets, bytes)
}

// decoded is what nfdump has read of TCP, when nfcapd has ended.
func (n *nfcapd) decoded() (flows []string) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	_ = n.cmd.Wait()
	if !strings.Contains(n.out.String(), "Sequence Errors: 0, Bad Packets: 0") {
		n.t.Errorf("nfcapd: %s", n.out)
	}
	out, err := exec.Command("nfdump", "-R", n.dir, "-q", "-N", "-o", "json").CombinedOutput()
	if err != nil {
		n.t.Fatalf("nfdump: %v %s", err, out)
	}
	var list []nfFlow
	if err := json.Unmarshal(fmt.Appendf(nil, "[%s]", bytes.Trim(out, "[],\n\t ")), &list); err != nil {
		n.t.Fatalf("nfdump: %v %s", err, out)
	}
	for _, f := range list {
		if f.Protocol == syscall.IPPROTO_TCP {
			flows = append(flows, f.String())
		}
	}
	slices.Sort(flows)
	return flows
}

// A collector of another make reads the records of the flow log, all of them, as IPFIX and as NetFlow v9: the same ends,
// translations, packets and bytes.
func TestFlowExport(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1", "2001:db8:1::10/64": "2001:db8:1::1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1", "2001:db8:2::9/64": "2001:db8:2::1"})
	ipfix, old := lan.nfcapd(4739), lan.nfcapd(2055)
	b.want(0, "applied", "apply", b.file("log.yaml", schoolConfig+`flow-log:
  interval: 1h
  collectors:
    new: {address: 192.0.2.10}
    old: {address: 192.0.2.10, protocol: netflow9}
`))
	lan.echo(":80")
	wan.echo(":90")
	for i := range 20 {
		for _, c := range []connection{lan.connect("198.51.100.9:90"), lan.connect("[2001:db8:2::9]:90"), wan.connect("198.51.100.1:8080")} {
			for range 1 + i%4 {
				c.wantEcho(true)
			}
		}
	}
	b.want(0, "", "clear", "connections", "proto", "tcp")
	log := b.logged(60, "--proto", "tcp", "--top", "1000")
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var sent flowexport.Observed
		b.json(&sent, "show", "flows", "collectors", "--json")
		if c := sent.Collectors; len(c) == 2 && c[0].Records >= 60 && c[1].Records >= 60 && c[0].Lost+c[1].Lost == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", sent)
		}
	}
	var want, wantOld []string
	for _, r := range log.Records {
		seen, called := *cmp.Or(r.TranslatedSource, &r.Source), *cmp.Or(r.TranslatedDestination, &r.Destination)
		s, c, e, d := spaced(r.Source.String()), spaced(called.String()), spaced(seen.String()), spaced(r.Destination.String())
		ways := [4]string{e, d, c, s}
		if s == e && c == d {
			ways = [4]string{}
		}
		want = append(want, exported(s, c, ways[0], ways[1], r.Packets, r.Bytes))
		wantOld = append(wantOld, exported(s, c, ways[0], ways[1], [2]uint64{r.Packets[0]}, [2]uint64{r.Bytes[0]}),
			exported(d, e, ways[2], ways[3], [2]uint64{r.Packets[1]}, [2]uint64{r.Bytes[1]}))
	}
	for _, of := range []struct {
		name string
		from *nfcapd
		want []string
	}{{"IPFIX", ipfix, want}, {"NetFlow v9", old, wantOld}} {
		got := of.from.decoded()
		slices.Sort(of.want)
		if !slices.Equal(got, of.want) {
			t.Errorf("%s: nfdump has\n%s\nthe log has\n%s", of.name, strings.Join(got, "\n"), strings.Join(of.want, "\n"))
		}
	}
}

// spaced is address and port, as nfdump has them.
func spaced(end string) string {
	i := strings.LastIndex(end, ":")
	return strings.Trim(end[:i], "[]") + " " + end[i+1:]
}
