// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/boottime"
	"minne/internal/base/figure"
)

// The router's figures for services that pass them on. Where node_exporter has a figure, it is called as there, so that its
// dashboards and rules work; the others begin with minne_. All counts are those of the views: packets of the fast path are in them, once.

// voice is what services may pass on of a running router.
type voice struct {
	lines   func(ctx context.Context, from int, say func(number int, line string) error) error
	figures func(context.Context) ([]figure.Family, error)
}

// mostDevices bounds the interfaces that are told of, by their index: the first are the ports.
const mostDevices = 256

// bgpWait bounds how long a scrape waits for bgpd.
const bgpWait = 2 * time.Second

func (d *Daemon) figures(ctx context.Context) (all []figure.Family, err error) {
	links, err := d.interfaceFigures(ctx)
	if err != nil {
		return nil, err
	}
	all = append(links, machineFigures()...)
	fast, err := d.fastPathFigures(ctx)
	if err != nil {
		return nil, err
	}
	all = append(all, fast...)
	all = append(all, d.bgpFigures(ctx)...)
	return append(all, d.healthFigures()...), nil
}

func gauge(name, help string, labels ...string) figure.Family {
	return figure.Family{Name: name, Help: help, Labels: labels}
}

func counter(name, help string, labels ...string) figure.Family {
	return figure.Family{Name: name, Help: help, Labels: labels, Counter: true}
}

// one is a family of one sample without labels.
func one(f figure.Family, value float64) figure.Family {
	f.Add(value)
	return f
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (d *Daemon) interfaceFigures(ctx context.Context) ([]figure.Family, error) {
	interfaces, err := d.parts.interfaces(ctx)
	if err != nil {
		return nil, err
	}
	const device = "device"
	up, mtu, speed := gauge("node_network_up", "Whether the interface is up and has a carrier.", device),
		gauge("node_network_mtu_bytes", "MTU of the interface.", device), gauge("node_network_speed_bytes", "Speed of the link, bytes per second.", device)
	counts := []figure.Family{
		counter("node_network_receive_bytes_total", "Bytes received.", device), counter("node_network_receive_packets_total", "Packets received.", device),
		counter("node_network_receive_errs_total", "Packets received with an error.", device), counter("node_network_receive_drop_total", "Received packets that were dropped.", device),
		counter("node_network_transmit_bytes_total", "Bytes sent.", device), counter("node_network_transmit_packets_total", "Packets sent.", device),
		counter("node_network_transmit_errs_total", "Packets not sent because of an error.", device), counter("node_network_transmit_drop_total", "Packets to send that were dropped.", device),
	}
	for _, i := range interfaces[:min(len(interfaces), mostDevices)] {
		up.Add(truth(i.State == "up"), i.Name)
		mtu.Add(float64(i.MTU), i.Name)
		if i.Speed > 0 {
			speed.Add(float64(i.Speed)*1e6/8, i.Name)
		}
		for n, value := range []uint64{i.RX.Bytes, i.RX.Packets, i.RX.Errors, i.RX.Drops, i.TX.Bytes, i.TX.Packets, i.TX.Errors, i.TX.Drops} {
			counts[n].Add(float64(value), i.Name)
		}
	}
	return append([]figure.Family{up, mtu, speed}, counts...), nil
}

// machineFigures are those of the kernel. What it does not tell is absent.
func machineFigures() (all []figure.Family) {
	now := time.Now()
	all = append(all, one(gauge("node_time_seconds", "The clock."), float64(now.UnixMilli())/1e3),
		one(gauge("node_boot_time_seconds", "When the machine was started."), float64(now.Add(-boottime.Now()).Unix())))
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f := gauge("node_uname_info", "The kernel.", "sysname", "release", "machine", "nodename")
		f.Add(1, unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), unix.ByteSliceToString(u.Nodename[:]))
		all = append(all, f)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		var loads [3]float64
		if n, _ := fmt.Sscan(string(text), &loads[0], &loads[1], &loads[2]); n == 3 {
			for i, name := range []string{"node_load1", "node_load5", "node_load15"} {
				all = append(all, one(gauge(name, "Load average."), loads[i]))
			}
		}
	}
	memory := keyed("/proc/meminfo")
	for _, key := range []string{"MemTotal", "MemAvailable", "MemFree"} {
		if kB, ok := memory[key]; ok {
			all = append(all, one(gauge("node_memory_"+key+"_bytes", "Memory."), kB*1024))
		}
	}
	if used, room, err := conntrackRoom(); err == nil && room > 0 {
		all = append(all, one(gauge("node_nf_conntrack_entries", "Connections that conntrack keeps."), float64(used)),
			one(gauge("node_nf_conntrack_entries_limit", "Connections that conntrack may keep."), float64(room)))
	}
	return append(all, cpuFigures()...)
}

// keyed reads a file of lines such as "MemTotal: 4000 kB".
func keyed(file string) map[string]float64 {
	found := map[string]float64{}
	text, err := os.ReadFile(file)
	if err != nil {
		return found
	}
	for line := range strings.Lines(string(text)) {
		key, rest, _ := strings.Cut(line, ":")
		if words := strings.Fields(rest); len(words) > 0 {
			if value, err := strconv.ParseFloat(words[0], 64); err == nil {
				found[key] = value
			}
		}
	}
	return found
}

// cpuModes are the columns of /proc/stat (proc_stat(5)), in hundredths of seconds.
var cpuModes = []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"}

func cpuFigures() []figure.Family {
	f := counter("node_cpu_seconds_total", "Time that a processor was in a mode.", "cpu", "mode")
	stat, err := os.Open("/proc/stat")
	if err != nil {
		return nil
	}
	defer stat.Close()
	for lines := bufio.NewScanner(stat); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 1+len(cpuModes) || !strings.HasPrefix(words[0], "cpu") || words[0] == "cpu" {
			continue
		}
		for i, mode := range cpuModes {
			if ticks, err := strconv.ParseFloat(words[1+i], 64); err == nil {
				f.Add(ticks/100, strings.TrimPrefix(words[0], "cpu"), mode)
			}
		}
	}
	return []figure.Family{f}
}

func (d *Daemon) fastPathFigures(ctx context.Context) ([]figure.Family, error) {
	o, err := d.parts.fastpath.Observe(ctx)
	if err != nil {
		return nil, err
	}
	drops, punts := counter("minne_dropped_packets_total", "Packets that the fast path dropped, by reason.", "reason"),
		counter("minne_punted_packets_total", "Packets that the fast path left to the kernel, by reason.", "reason")
	for _, r := range o.Reasons {
		if r.Drop {
			drops.Add(float64(r.Count), r.Reason)
		} else {
			punts.Add(float64(r.Count), r.Reason)
		}
	}
	on, forwarded := gauge("minne_fast_path_up", "Whether the fast path runs on the port.", "device"),
		counter("minne_fast_path_packets_total", "Packets that arrived on the interface and were forwarded by the fast path; they are in the interface's counters, too.", "device")
	for _, p := range o.Ports[:min(len(o.Ports), mostDevices)] {
		on.Add(truth(p.Mode != "off"), p.Name)
	}
	for _, t := range o.Traffic[:min(len(o.Traffic), mostDevices)] {
		forwarded.Add(float64(t.RxPackets), t.Name)
	}
	routes := gauge("minne_fast_path_prefixes", "Prefixes in the fast path's tables.", "family", "vrf")
	for _, t := range o.Tables {
		routes.Add(float64(t.Prefixes), t.Family, t.VRF)
	}
	all := []figure.Family{drops, punts, on, forwarded, routes}
	stats, ok, err := d.parts.fastpath.FlowStats()
	if ok {
		all = append(all, one(gauge("minne_fast_path_flows", "Connections in the fast path's table."), float64(stats.Entries)),
			one(gauge("minne_fast_path_flows_limit", "Room in the fast path's table."), float64(stats.Capacity)))
	}
	return all, err
}

// bgpFigures are the sessions of the main table, when bgpd answers.
func (d *Daemon) bgpFigures(ctx context.Context) []figure.Family {
	ctx, cancel := context.WithTimeout(ctx, bgpWait)
	defer cancel()
	peers, err := d.parts.routing.BGPSessions(ctx, "")
	if err != nil || len(peers) == 0 {
		return nil // that bgpd does not answer is a fault, which is told below
	}
	up, dropped := gauge("minne_bgp_peer_up", "Whether the session is established.", "peer", "address"),
		counter("minne_bgp_peer_dropped_total", "How often the session has ended.", "peer", "address")
	for _, p := range peers[:min(len(peers), mostDevices)] {
		up.Add(truth(p.State == "Established"), p.Name, p.Address)
		dropped.Add(float64(p.Dropped), p.Name, p.Address)
	}
	return []figure.Family{up, dropped}
}

func (d *Daemon) healthFigures() []figure.Family {
	about := gauge("minne_info", "The daemon.", "version", "instance")
	about.Add(1, d.version, d.inst.Name)
	alarms := gauge("minne_alarm", "1 for each alarm that lasts.", "id", "alarm", "severity")
	faults := d.parts.health.Faults()
	for _, f := range faults[:min(len(faults), mostDevices)] {
		alarms.Add(1, f.ID, f.Key, string(f.Severity))
	}
	_, repaired := d.parts.health.Repairs()
	return []figure.Family{about, alarms, one(gauge("minne_alarms", "How many alarms last."), float64(len(faults))),
		one(counter("minne_repairs_total", "How often something else changed the router's state and it was restored."), float64(repaired)),
		one(gauge("minne_revision", "Number of the running revision; 0 without one."), float64(d.engine.runningNumber()))}
}
