// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"runtime"
	"sort"

	"minne/internal/model/config"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/guard"
	"minne/internal/subsystem/fastpath/label"
)

// Desired is the fast path that a configuration asks for.
type Desired struct {
	Mode       config.FastPathMode    `json:"mode"`
	Auto       bool                   `json:"auto,omitempty"` // the structure is what is best on this machine, instead of Structure
	Structure  fib.Structure          `json:"structure"`
	Flows      int                    `json:"flows"`      // room in the flow table; 0 for the default
	Interfaces map[string]DesiredPort `json:"interfaces"` // by kernel name, those that the kernel alone has left out
	Guard      guard.Settings         `json:"guard"`
	Labels     *label.Sets            `json:"labels,omitempty"` // nil: flows are not labelled
	Spread     []string               `json:"spread,omitempty"` // ports whose packets are spread over CPUs
	SpreadOver []int                  `json:"spread-over,omitempty"`
	SpreadNot  []int                  `json:"spread-not,omitempty"` // CPUs left out where SpreadOver has none
}

// DesiredPort is what one interface should do.
type DesiredPort struct {
	FastPath  bool             `json:"fast-path"`
	Evaluated bool             `json:"evaluated,omitempty"` // the firewall evaluates its packets: off until it is told (Firewall.Apply)
	MTU       int              `json:"mtu,omitempty"`       // bytes; 0 for the driver's
	AntiSpoof config.AntiSpoof `json:"anti-spoof"`          // on top of the kernel's rp_filter
	Carried   bool             `json:"carried,omitempty"`   // by the program of the port that it sits on: none of its own
	Bond      bool             `json:"bond,omitempty"`      // the kernel puts its program on its ports
	Session   string           `json:"session,omitempty"`   // interface that carries its PPPoE session
	VRF       bool             `json:"vrf,omitempty"`       // it is in a VRF
	Kernel    string           `json:"kernel,omitempty"`    // why only the kernel carries its packets

	ShapesDown bool `json:"shapes-down,omitempty"` // what comes in waits in the kernel's queue
	ShapesUp   bool `json:"shapes-up,omitempty"`   // what leaves does
}

// Render is what cfg asks of the fast path.
func Render(cfg *config.Config) (Desired, error) {
	d := Desired{Mode: cfg.FastPath.Mode, Flows: cfg.FastPath.Flows, Interfaces: map[string]DesiredPort{}}
	structure, err := fib.ParseStructure(cfg.FastPath.Structure)
	if err != nil {
		return Desired{}, fmt.Errorf("fast-path.structure: %w", err)
	}
	d.Structure, d.Auto = structure, cfg.FastPath.Structure == "auto"
	d.Guard = guard.Render(cfg, runtime.NumCPU())
	d.renderSpread(cfg)
	evaluated, masters, plans := evaluates(cfg), cfg.Masters(), cfg.QueuedByPlans()
	for name, i := range cfg.Interfaces {
		kind := cfg.Kind(name)
		if kind.Name != "" && kind.FastPath == config.NoProgram && !kind.Routed && kind.Kernel == "" || masters[name].Kind.Name == "bond" {
			continue // a bond puts the program that it has on its ports, and takes no port that has one
		}
		session := ""
		if i.PPPoE != nil {
			session = i.PPPoE.Parent
		}
		d.Interfaces[name] = DesiredPort{
			Bond:      i.Bond != nil,
			Session:   session,
			VRF:       masters[name].Kind.Name == "vrf",
			FastPath:  d.Mode != "off" && i.FastPath.On() && !i.Disabled && kind.Kernel == "",
			Kernel:    kind.Kernel,
			Evaluated: evaluated,
			MTU:       i.MTU,
			AntiSpoof: i.AntiSpoof,
			Carried:   kind.FastPath == config.ParentProgram,

			ShapesDown: i.Shape != nil && i.Shape.Down != 0 || plans[name],
			ShapesUp:   i.Shape != nil && i.Shape.Up != 0 || plans[name],
		}
	}
	return d, nil
}

// structureName is the structure as the configuration calls it.
func (d Desired) structureName() string {
	if d.Auto {
		return "auto"
	}
	return d.Structure.String()
}

// evaluates reports whether the configuration has a firewall.
func evaluates(cfg *config.Config) bool {
	for _, i := range cfg.Interfaces {
		if i.Zone != "" {
			return true
		}
	}
	return false
}

// names are the interfaces in the order of their names.
func (d Desired) names() []string {
	var names []string
	for name := range d.Interfaces {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
