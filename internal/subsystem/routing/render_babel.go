// SPDX-License-Identifier: Apache-2.0

// Babel for FRR's babeld.
package routing

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"minne/internal/model/config"
)

// babelLink is what babeld knows of an interface; its zero value is nothing.
type babelLink struct {
	wired         bool
	cost          int
	hello, update int // ms
}

// FRR's defaults.
var (
	babelWireless = babelLink{false, 256, 4000, 16000}
	babelWired    = babelLink{true, 96, 4000, 16000}
)

// defaults are those of the same type.
func (b babelLink) defaults() babelLink {
	if b.wired {
		return babelWired
	}
	return babelWireless
}

// String is for a preview.
func (b babelLink) String() string {
	return fmt.Sprintf("%s, cost %d, hello %v, update %v", map[bool]string{true: "wired", false: "wireless"}[b.wired], b.cost,
		time.Duration(b.hello)*time.Millisecond, time.Duration(b.update)*time.Millisecond)
}

// lines are what babeld prints for it.
func (b babelLink) lines() []string {
	var out []string
	d := b.defaults()
	if b.wired {
		out = append(out, "babel wired")
	}
	if b.hello != d.hello {
		out = append(out, fmt.Sprintf("babel hello-interval %d", b.hello))
	}
	if b.update != d.update {
		out = append(out, fmt.Sprintf("babel update-interval %d", b.update))
	}
	if b.cost != d.cost {
		out = append(out, fmt.Sprintf("babel rxcost %d", b.cost))
	}
	return out
}

// babelLinkOf reads the lines of an interface.
func babelLinkOf(n *node) babelLink {
	b := babelWireless
	if n.find("babel wired") != nil {
		b = babelWired
	}
	for _, l := range n.sub {
		f := strings.Fields(l.line)
		if len(f) != 3 || f[0] != "babel" {
			continue
		}
		value, err := strconv.Atoi(f[2])
		if err != nil {
			continue
		}
		switch f[1] {
		case "hello-interval":
			b.hello = value
		case "update-interval":
			b.update = value
		case "rxcost":
			b.cost = value
		}
	}
	return b
}

// become returns the commands that turn one into another. babeld has no "no" for them, and a change of the type sets the
// cost to that type's default.
func (b babelLink) become(want babelLink) []string {
	var out []string
	if b.wired != want.wired {
		out = append(out, map[bool]string{true: "babel wired", false: "babel wireless"}[want.wired])
		b.cost = want.defaults().cost
	}
	if b.hello != want.hello {
		out = append(out, fmt.Sprintf("babel hello-interval %d", want.hello))
	}
	if b.update != want.update {
		out = append(out, fmt.Sprintf("babel update-interval %d", want.update))
	}
	if b.cost != want.cost {
		out = append(out, fmt.Sprintf("babel rxcost %d", want.cost))
	}
	return out
}

// babelWord is how babeld calls routes that are redistributed; the kernel package installs static ones, so zebra calls them kernel routes.
func babelWord(r config.Redistribute, v6 bool) string {
	switch {
	case r == "static":
		return "kernel"
	case r == "ospf" && v6:
		return "ospf6"
	}
	return string(r)
}

func renderBabel(c *config.Babel) (string, error) {
	var l lines
	names := sortedKeys(c.Interfaces)
	for _, name := range names {
		if err := ifname("interfaces."+name, name); err != nil {
			return "", err
		}
		i := c.Interfaces[name]
		b := babelLink{wired: i.Type != "wireless", hello: milliseconds(i.Hello), update: milliseconds(i.Update)}
		b.cost = cmp.Or(i.Cost, b.defaults().cost)
		l.add("interface %s", name)
		for _, line := range b.lines() {
			l.add(" %s", line)
		}
		l.add("exit")
	}
	l.add("router babel")
	for _, name := range names {
		l.add(" network %s", name)
	}
	for _, v6 := range []bool{false, true} {
		for _, r := range c.Redistribute {
			l.add(" redistribute %s %s", map[bool]string{false: "ipv4", true: "ipv6"}[v6], babelWord(r, v6))
		}
	}
	l.add("exit")
	return l.String(), nil
}

func milliseconds(d config.Duration) int { return int(time.Duration(d) / time.Millisecond) }
