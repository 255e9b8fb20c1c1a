// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"time"
)

// Plan is what a subscriber gets: how fast, and how what has to wait is queued.
type Plan struct {
	Description string    `yaml:"description" json:"description,omitempty" doc:"Free text of at most 200 characters."`
	Down        Rate      `yaml:"down" json:"down" doc:"Speed to the subscriber, in bits of Ethernet frames a second." required:"true" example:"50Mbit"`
	Up          Rate      `yaml:"up" json:"up" doc:"Speed from the subscriber." required:"true" example:"10Mbit"`
	Burst       Duration  `yaml:"burst" json:"burst,omitempty" doc:"What a subscriber who was silent may send or get at once, as time at the speed of the plan: with 1s at 50Mbit it is 6.25 MB. 1ms to 10s." default:"10ms"`
	Queue       PlanQueue `yaml:"queue" json:"queue,omitempty" doc:"How a subscriber's packets wait. fq-codel: connections have the same share and queues are short. cake: the same for hosts, then connections, with 0.8 MB of memory for each subscriber and direction. fifo: in their order. auto: fq-codel if the kernel has it, else cake, else fifo." default:"auto" enum:"auto,fq-codel,cake,fifo"`
}

// PlanQueue is the queue of a subscriber, by the words of the file.
type PlanQueue string

// Subscriber is who has a plan: addresses, hosts, or all that is behind an interface.
type Subscriber struct {
	Description string   `yaml:"description" json:"description,omitempty" doc:"Free text of at most 200 characters."`
	Plan        string   `yaml:"plan" json:"plan" doc:"The plan, a name under plans." required:"true" example:"basic"`
	Addresses   []Prefix `yaml:"addresses" json:"addresses,omitempty" doc:"The subscriber's own addresses and networks of both families, before NAT. Of several subscribers the longest prefix counts." example:"192.0.2.10/32"`
	MAC         []MAC    `yaml:"mac" json:"mac,omitempty" doc:"MAC addresses of the subscriber's hosts or router, on the same network as this router: whatever addresses they have. Addresses of subscribers count first." example:"52:54:00:12:34:56"`
	Interface   string   `yaml:"interface" json:"interface,omitempty" doc:"The interface that the subscriber is behind. Absent: every one with subscribers: on. Without addresses and mac, all that passes the interface is the subscriber's: a VLAN or a PPPoE session for each." names:"interface" example:"lan"`
}

// Whole says whether all that passes the interface is the subscriber's.
func (s *Subscriber) Whole() bool { return len(s.Addresses)+len(s.MAC) == 0 }

const (
	// MostSubscribers bounds those behind one router: the kernel numbers their queues in 15 bits.
	MostSubscribers = 30_000
	// MostPrefixLengths is how many different lengths of prefixes subscribers of a family have: each is looked up.
	MostPrefixLengths = 16
	// LongestSubscriber is the longest name of a subscriber, in bytes.
	LongestSubscriber = 43

	leastPlanBurst, longestPlanBurst = time.Millisecond, 10 * time.Second
)

// plans checks plans and subscribers.
func (c *checker) plans() {
	for _, name := range sortedKeys(c.cfg.Plans) {
		path, p := joinPath("plans", name), c.cfg.Plans[name]
		c.subscriberName(path, name, "plan")
		c.description(path+".description", p.Description)
		for _, rate := range []struct {
			key string
			to  Rate
		}{{"down", p.Down}, {"up", p.Up}} {
			if rate.to < leastShaped || rate.to > mostShaped {
				c.refuse(path+"."+rate.key, fmt.Sprintf("%s is no speed of a plan", rate.to), fmt.Sprintf("%s to %s", leastShaped, mostShaped), "")
			}
		}
		if b := p.Burst.Std(); b < leastPlanBurst || b > longestPlanBurst {
			c.refuse(path+".burst", fmt.Sprintf("burst %s is out of range", p.Burst), "1ms to 10s", "")
		}
	}
	c.sortingInterfaces()
	c.subscribers()
}

// subscriberName checks the name of a plan or subscriber, which is printed in tables.
func (c *checker) subscriberName(path, name, what string) {
	if len(name) > LongestSubscriber || !linkName.MatchString(name) {
		c.refuse(path, fmt.Sprintf("%q can't name a %s", abridge(name), what), fmt.Sprintf("1 to %d letters, digits, dots and dashes", LongestSubscriber), "")
	}
}

// sortingInterfaces checks the interfaces whose packets are sorted by subscribers.
func (c *checker) sortingInterfaces() {
	for _, name := range sortedKeys(c.cfg.Interfaces) {
		i := c.cfg.Interfaces[name]
		if !i.Subscribers.On() {
			continue
		}
		path, kind := joinPath("interfaces", name)+".subscribers", c.cfg.Kind(name)
		c.queues(path, name, "subscribers")
		if kind.Dialed || kind.Routed {
			c.refuse(path, fmt.Sprintf("%s has one other end: all that passes it is one subscriber's", name), "a subscriber with interface: "+name+", and no addresses", "")
		}
		if len(c.cfg.Subscribers) == 0 {
			c.refuse(path, "there are no subscribers", "a section subscribers", "")
		}
	}
}

// queues checks that the packets of an interface can wait there, and don't wait elsewhere too. what is the key that asks for it.
func (c *checker) queues(path, name, what string) {
	kind := c.cfg.Kind(name)
	switch master := c.masters[name]; {
	case name == loopback || kind.Name == "dummy" || kind.Name == "vrf":
		c.refuse(path, fmt.Sprintf("%s is no line: nothing waits there", name), "the interface that leads to the subscribers", "")
		return
	case master.Kind.Bundles:
		c.refuse(path, fmt.Sprintf("%s is a port of %s and has no packets of its own", name, master.Name), what+" at "+master.Name, "")
		return
	}
	if c.cfg.Interfaces[name].Shape != nil {
		c.refuse(path, fmt.Sprintf("%s is shaped too, so packets would wait twice", name), "shape at the line to the Internet, plans at the interfaces to the subscribers", "")
	}
	for _, p := range kind.Parents {
		if below := c.cfg.Interfaces[p.Name]; below != nil && c.cfg.SortsSubscribers(p.Name) {
			c.refuse(path, fmt.Sprintf("%s below sorts by subscribers too, so packets would wait twice", p.Name), "one of them", "")
		}
	}
}

// subscribers checks who has a plan.
func (c *checker) subscribers() {
	if n := len(c.cfg.Subscribers); n > MostSubscribers {
		c.refuse("subscribers", fmt.Sprintf("%d subscribers", n), fmt.Sprintf("at most %d behind one router", MostSubscribers), "")
		return
	}
	plans := sortedKeys(c.cfg.Plans)
	sorting := false
	for _, i := range c.cfg.Interfaces {
		sorting = sorting || i.Subscribers.On()
	}
	addresses, macs, wholes := map[netip.Prefix]string{}, map[MAC]string{}, map[string]string{}
	lengths := map[bool]map[int]bool{true: {}, false: {}}
	for _, name := range sortedKeys(c.cfg.Subscribers) {
		path, s := joinPath("subscribers", name), c.cfg.Subscribers[name]
		c.subscriberName(path, name, "subscriber")
		c.description(path+".description", s.Description)
		if c.cfg.Plans[s.Plan] == nil {
			expected := "a name under plans"
			if len(plans) == 0 {
				expected = "a section plans"
			}
			c.refuse(path+".plan", fmt.Sprintf("there is no plan %q", abridge(s.Plan)), expected, nearest(s.Plan, plans))
		}
		c.subscriberPlace(path, name, s, sorting, wholes)
		for k, a := range s.Addresses {
			at := indexPath(path+".addresses", k)
			if other, twice := addresses[a.Prefix]; twice {
				c.refuse(at, fmt.Sprintf("%s is subscriber %s's already", a, other), "an address of this subscriber alone", "")
			}
			addresses[a.Prefix] = name
			if p := a.Addr(); p.IsMulticast() || p.IsLoopback() || p.IsLinkLocalUnicast() {
				c.refuse(at, fmt.Sprintf("%s is no subscriber's address", a), "addresses that are routed", "")
			}
			of := lengths[a.Addr().Is4()]
			if of[a.Bits()] = true; len(of) == MostPrefixLengths+1 {
				c.refuse(at, fmt.Sprintf("more than %d different lengths of prefixes", MostPrefixLengths), fmt.Sprintf("at most %d for each family", MostPrefixLengths), "")
			}
		}
		for k, m := range s.MAC {
			if other, twice := macs[m]; twice {
				c.refuse(indexPath(path+".mac", k), fmt.Sprintf("%s is subscriber %s's already", m, other), "a MAC address of this subscriber alone", "")
			}
			macs[m] = name
		}
	}
}

// subscriberPlace checks that the subscriber's packets pass an interface where they are sorted.
func (c *checker) subscriberPlace(path, name string, s *Subscriber, sorting bool, wholes map[string]string) {
	i := c.cfg.Interfaces[s.Interface]
	switch {
	case s.Interface != "" && i == nil: // said already
	case s.Whole() && s.Interface == "":
		c.refuse(path, "nothing says which packets are the subscriber's", "addresses, mac or interface", "")
	case s.Whole() && c.cfg.SortsSubscribers(s.Interface):
		c.refuse(path+".interface", fmt.Sprintf("%s has subscribers: on, so it is shared", s.Interface), "addresses or mac, or an interface of this subscriber alone", "")
	case s.Whole():
		if other := wholes[s.Interface]; other != "" {
			c.refuse(path+".interface", fmt.Sprintf("all that passes %s is subscriber %s's already", s.Interface, other), "addresses, and subscribers: on at the interface", "")
		}
		wholes[s.Interface] = name
		c.queues(path+".interface", s.Interface, "the subscriber")
	case s.Interface != "" && !i.Subscribers.On():
		c.refuse(path+".interface", fmt.Sprintf("packets of %s are not sorted by subscribers", s.Interface), "subscribers: on at that interface", "")
	case !sorting:
		c.refuse(path, "no interface sorts packets by subscribers", "subscribers: on at the interface that leads to them", "")
	}
}

// SortsSubscribers says whether the packets of an interface are sorted by subscribers, or by users who have logged in.
func (cfg *Config) SortsSubscribers(name string) bool {
	i, l := cfg.Interfaces[name], cfg.Services.Login[cfg.LoginOf(name)]
	return i != nil && i.Subscribers.On() || l != nil && l.Rate != nil
}

// QueuedByPlans are the interfaces at which what passes waits by the plans of subscribers.
func (cfg *Config) QueuedByPlans() map[string]bool {
	all := map[string]bool{}
	for name := range cfg.Interfaces {
		if cfg.SortsSubscribers(name) {
			all[name] = true
		}
	}
	for _, s := range cfg.Subscribers {
		if s.Whole() {
			all[s.Interface] = true
		}
	}
	return all
}
