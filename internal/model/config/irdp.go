// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"time"
)

// IRDP advertises this router to the IPv4 hosts of one interface (ICMP router discovery, RFC 1256).
type IRDP struct {
	Preference int      `yaml:"preference" json:"preference,omitempty" doc:"Of several routers, hosts use the one with the greatest preference. Absent: 0."`
	Interval   Duration `yaml:"interval" json:"interval,omitempty" doc:"Greatest time between two advertisements (MaxAdvertisementInterval), 4 seconds to 30 minutes. The least is three quarters of it." default:"10m"`
	Lifetime   Duration `yaml:"lifetime" json:"lifetime,omitempty" doc:"How long hosts use the router after its last advertisement (AdvertisementLifetime): at least the interval, at most 2h30m. Absent: three times the interval."`
}

// mostAdvertised is the greatest lifetime of an advertisement (RFC 1256, section 4.1).
const mostAdvertised = 9000 * time.Second

func (r *IRDP) check(c *checker, path string) {
	name := path[strings.LastIndex(path, ".")+1:]
	if c.cfg.Interfaces[name] == nil || !c.serves(path, name, "router discovery") {
		return
	}
	if c.cfg.Kind(name).Routed {
		c.refuse(path, name+" has no hosts that share a link", "a port, VLAN, bond or bridge", "")
	}
	if len(c.cfg.IPv4Addresses(name)) == 0 {
		c.refuse(path, name+" has no IPv4 address that hosts could use as their router", "an IPv4 address under interfaces."+name, "")
	}
	c.seconds(path+".interval", r.Interval, 4, 1800)
	if l := r.AdvertisedLifetime(); l < r.Interval.Std() || l > mostAdvertised {
		c.refuse(path+".lifetime", fmt.Sprintf("hosts can't use the router for %v after an advertisement", r.Lifetime), "the interval, here "+r.Interval.String()+", to 2h30m", "")
	}
}

// AdvertisedLifetime is how long hosts use the router.
func (r *IRDP) AdvertisedLifetime() time.Duration {
	if r.Lifetime != 0 {
		return r.Lifetime.Std()
	}
	return 3 * r.Interval.Std()
}
