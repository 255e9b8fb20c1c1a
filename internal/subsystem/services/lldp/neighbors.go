// SPDX-License-Identifier: Apache-2.0

package lldp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"minne/internal/subsystem/services/service"
)

// Observed is what LLDP heard.
type Observed struct {
	On        bool       `json:"on"`      // services.lldp is in the configuration
	Running   bool       `json:"running"` // lldpd is
	Neighbors []Neighbor `json:"neighbors"`
}

// Neighbor is one device on a cable.
type Neighbor struct {
	Interface       string   `json:"interface"` // of this router
	System          string   `json:"system,omitempty"`
	Description     string   `json:"description,omitempty"`
	Chassis         string   `json:"chassis"` // its identity
	ChassisType     string   `json:"chassis_type"`
	Port            string   `json:"port"` // its end of the cable
	PortType        string   `json:"port_type"`
	PortDescription string   `json:"port_description,omitempty"`
	Addresses       []string `json:"management_addresses,omitempty"`
	Capabilities    []string `json:"capabilities,omitempty"` // those that are on, as Router or Bridge
	Seconds         int      `json:"age_seconds"`            // since it was first heard
	TTL             int      `json:"ttl_seconds"`            // how long its word holds
}

// askLimit bounds how long lldpd may take to answer.
const askLimit = 5 * time.Second

// Observe asks lldpd.
func (d *Daemon) Observe(ctx context.Context) (Observed, error) {
	state := d.State()
	o := Observed{On: state.Object != "", Running: state.Running, Neighbors: []Neighbor{}}
	if !o.Running {
		return o, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "lldpcli", "-u", filepath.Join(d.Dir(), socket), "-f", "json0", "show", "neighbors", "details").CombinedOutput()
	if err != nil {
		return o, fmt.Errorf("lldpcli show neighbors: %w: %s", err, strings.TrimSpace(string(out)))
	}
	o.Neighbors, err = read(out)
	return o, err
}

// words is how lldpcli's json0 writes texts: a list, mostly of one.
type words []struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

func (w words) first() string {
	if len(w) == 0 {
		return ""
	}
	return plain(w[0].Value)
}

// plain is a text of a neighbour without what a terminal would obey.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, text)
}

func (w words) kind() string {
	if len(w) == 0 {
		return ""
	}
	return w[0].Type
}

// read takes what lldpcli prints in its format json0, in which a list of one is a list.
func read(text []byte) ([]Neighbor, error) {
	var answer struct {
		LLDP []struct {
			Interface []struct {
				Name    string `json:"name"`
				Age     string `json:"age"`
				Chassis []struct {
					ID           words `json:"id"`
					Name         words `json:"name"`
					Description  words `json:"descr"`
					Addresses    words `json:"mgmt-ip"`
					Capabilities []struct {
						Type    string `json:"type"`
						Enabled bool   `json:"enabled"`
					} `json:"capability"`
				} `json:"chassis"`
				Port []struct {
					ID          words `json:"id"`
					Description words `json:"descr"`
					TTL         words `json:"ttl"`
				} `json:"port"`
			} `json:"interface"`
		} `json:"lldp"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("answer of lldpcli: %w", err)
	}
	list := []Neighbor{}
	for _, l := range answer.LLDP {
		for _, i := range l.Interface {
			n := Neighbor{Interface: i.Name, Seconds: seconds(i.Age)}
			for _, c := range i.Chassis {
				n.System, n.Description = c.Name.first(), c.Description.first()
				n.Chassis, n.ChassisType = c.ID.first(), c.ID.kind()
				for _, a := range c.Addresses {
					n.Addresses = append(n.Addresses, plain(a.Value))
				}
				for _, can := range c.Capabilities {
					if can.Enabled {
						n.Capabilities = append(n.Capabilities, plain(can.Type))
					}
				}
			}
			for _, p := range i.Port {
				n.Port, n.PortType, n.PortDescription = p.ID.first(), p.ID.kind(), p.Description.first()
				n.TTL, _ = strconv.Atoi(p.TTL.first()) // a number of 16 bits
			}
			list = append(list, n)
		}
	}
	return list, nil
}

// seconds reads an age as lldpcli writes it, "1 day, 02:03:04"; 0 when it is none.
func seconds(age string) int {
	var days, h, m, s int
	var word string
	if n, _ := fmt.Sscanf(age, "%d %s %d:%d:%d", &days, &word, &h, &m, &s); n != 5 {
		return 0
	}
	return days*24*3600 + h*3600 + m*60 + s
}

// table prints the neighbours.
func table(o Observed) service.Table {
	t := service.Table{Head: []string{"Interface", "Neighbor", "Port", "Address", "Capabilities", ">Seconds"}, Empty: "no neighbour was heard by LLDP"}
	switch {
	case !o.On:
		t.Empty = "LLDP: off (there is no section services.lldp in the configuration)"
	case !o.Running:
		t.Empty = "LLDP: not running; for the reason see minne show services"
	}
	for _, n := range o.Neighbors {
		system := n.System
		system = cmp.Or(system, n.Chassis)
		t.Rows = append(t.Rows, []string{n.Interface, system, n.Port, dash(strings.Join(n.Addresses, " ")), dash(strings.Join(n.Capabilities, " ")), strconv.Itoa(n.Seconds)})
	}
	return t
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
