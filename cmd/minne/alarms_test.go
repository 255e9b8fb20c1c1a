// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"minne/internal/base/health"
	"minne/internal/daemon/show"
)

// hosts opens a listener in the namespace.
func (n *neighbour) hosts(at string) (l net.Listener) {
	n.t.Helper()
	if err := n.inside(func() (err error) {
		l, err = net.Listen("tcp", at)
		return err
	}); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	return l
}

// scrape reads the router's figures from the namespace.
func (n *neighbour) scrape(at string) (figures map[string]float64, err error) {
	conn, err := n.dial("tcp", at)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, err
	}
	figures = map[string]float64{}
	for name, f := range found {
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			figures[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return figures, nil
}

// An alarm is one line however it is noticed; somebody says that he knows of it; a syslog server, a web server and
// Prometheus hear of it through a firewall that lets nothing else out. Who is behind another interface can't read the figures.
func TestAlarms(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	inside, outside := b.newNeighbour("lan"), b.newNeighbour("wan")
	inside.run("ip addr add 192.0.2.9/24 dev eth0")
	outside.run("ip addr add 198.51.100.9/24 dev eth0 && ip route add default via 198.51.100.1")
	logs, hook := inside.hosts("192.0.2.9:5514"), inside.hosts("192.0.2.9:8080")
	lines := make(chan string, 1000)
	go func() {
		for {
			conn, err := logs.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := bufio.NewReader(conn); ; { // RFC 6587, section 3.4.1
					var size int
					if _, err := fmt.Fscanf(r, "%d ", &size); err != nil {
						return
					}
					text := make([]byte, size)
					if _, err := io.ReadFull(r, text); err != nil {
						return
					}
					lines <- string(text)
				}
			}()
		}
	}()
	turns := make(chan health.Event, 100)
	go func() {
		_ = http.Serve(hook, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { // until the listener is closed
			var e health.Event
			if json.NewDecoder(r.Body).Decode(&e) == nil {
				turns <- e
			}
		}))
	}()
	b.start()
	b.want(0, "no alarms", "show", "alarms")
	b.want(0, "applied", "apply", b.file("alarms.yaml", `version: 1
system: {hostname: attic}
interfaces:
  lan: {addresses: [192.0.2.1/24], zone: lan}
  wan: {addresses: [198.51.100.1/24], zone: wan}
firewall:
  policies:
    - {from: self, to: any, default: deny}
    - {from: wan, to: self, rules: ["permit tcp any any 9100"]}
services:
  syslog: {central: {address: 192.0.2.9, port: 5514, transport: tcp}}
  webhooks: {central: {url: "http://192.0.2.9:8080/minne"}}
  metrics: {interfaces: [lan]}
`))
	b.inside("ip rule add priority 100 to 203.0.113.0/24 lookup main")
	var v show.AlarmsView
	eventually(t, "an alarm", func() bool { b.json(&v, "show", "alarms", "--json"); return len(v.Alarms) == 1 })
	id := v.Alarms[0].ID
	b.want(0, "minor", "show", "alarms")
	b.want(exitFailed, "no alarm has the id", "alarm", "ack", "nothing")
	b.want(0, "acknowledged: "+id+" policy routing: ", "alarm", "ack", id)
	b.want(0, "nothing to acknowledge", "alarm", "ack", "all")
	b.json(&v, "show", "alarms", "--json")
	if a := v.Alarms[0]; len(v.Alarms) != 1 || a.ID != id || a.Acknowledged == nil || a.Severity != health.Minor {
		t.Errorf("%+v", v)
	}
	figures, err := inside.scrape("192.0.2.1:9100")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"minne_alarms", "minne_alarm policy routing " + id + " minor", "node_network_up lan", "minne_revision"} {
		if figures[name] != 1 {
			t.Errorf("%s is %v", name, figures[name])
		}
	}
	if figures["node_network_receive_bytes_total lan"] == 0 || figures["node_memory_MemTotal_bytes"] == 0 {
		t.Errorf("no counters: %v", figures)
	}
	for _, at := range []string{"192.0.2.1:9100", "198.51.100.1:9100"} { // a rule lets it in, and there is nobody
		if _, err := outside.scrape(at); err == nil {
			t.Errorf("the WAN reads the figures at %s", at)
		}
	}
	b.inside("ip rule del priority 100")
	b.wantHealthy()
	for _, want := range []health.Turn{health.Raised, health.Acked, health.Cleared} {
		select {
		case e := <-turns:
			if e.Turn != want || e.Fault.ID != id {
				t.Errorf("web server: %+v, want %s", e, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("the web server did not hear that the alarm is %s", want)
		}
	}
	for _, want := range []string{" attic minne ", "msg=ready", `part="policy routing"`, "msg=recovered"} {
		for late := time.After(time.Minute); ; {
			select {
			case line := <-lines:
				if !strings.Contains(line, want) {
					continue
				}
			case <-late:
				t.Errorf("the syslog server got no line with %s", want)
			}
			break
		}
	}
}
