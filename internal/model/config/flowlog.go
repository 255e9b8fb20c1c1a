// SPDX-License-Identifier: Apache-2.0

package config

import "net/netip"

// FlowLog is which connections are remembered, where, and for how long.
type FlowLog struct {
	Size       int      `yaml:"size" json:"size,omitempty" doc:"Room on the disk for the log, in MB. The oldest records go when it is full. On the image the log is in memory, and is gone after a reboot." default:"1000" min:"8" max:"1000000"`
	Days       int      `yaml:"days" json:"days,omitempty" doc:"Records older than this are deleted." default:"90" min:"1" max:"3650"`
	Interval   Duration `yaml:"interval" json:"interval,omitempty" doc:"A connection that lasts is recorded at every interval, 10s to 24h, and when it ends." default:"10m"`
	Unanswered *OnOff   `yaml:"unanswered" json:"unanswered,omitempty" doc:"Records also connections that nobody answered. Off: a scan or a flood with forged addresses does not fill the log." default:"on" enum:"on,off"`

	Collectors map[string]*Collector `yaml:"collectors" json:"collectors,omitempty" doc:"Programs on other hosts that get every record, each under a name that you choose."`
}

// Collector gets the records of the flow log.
type Collector struct {
	Address     netip.Addr        `yaml:"address" json:"address" doc:"The collector's address." required:"true" example:"192.0.2.20"`
	Protocol    CollectorProtocol `yaml:"protocol" json:"protocol,omitempty" doc:"ipfix has both directions of a connection and its translation in one record. netflow9, for old collectors, has a record for each direction." default:"ipfix" enum:"ipfix,netflow9"`
	Transport   CollectorWay      `yaml:"transport" json:"transport,omitempty" doc:"udp loses records when the network or the collector does. tcp and tls wait for the collector: up to 65,536 records are kept in memory." default:"udp" enum:"udp,tcp,tls"`
	Port        int               `yaml:"port" json:"port,omitempty" doc:"Port. Absent: 4739 for ipfix, with tls 4740; 2055 for netflow9." min:"1" max:"65535"`
	Templates   Duration          `yaml:"templates" json:"templates,omitempty" doc:"With udp: how often the layout of the records is told again, 1s to 1h. A collector that has begun anew can read nothing before." default:"1m"`
	CA          string            `yaml:"ca" json:"ca,omitempty" doc:"With tls: name of the secret that holds the certificate (PEM) of the authority that signed the collector's. Absent: the authorities of the system." names:"secret"`
	Certificate string            `yaml:"certificate" json:"certificate,omitempty" doc:"With tls: name of the secret that holds the router's own certificate and its key (PEM), for collectors that ask for one." names:"secret"`
	Name        string            `yaml:"name" json:"name,omitempty" doc:"With tls: name in the collector's certificate. Absent: its address." example:"flows.example.net"`
}

// The words of the enumerations.
type (
	CollectorProtocol string
	CollectorWay      string
)

// At is where the collector listens.
func (l *Collector) At() netip.AddrPort {
	port := uint16(l.Port)
	switch {
	case port != 0:
	case l.Protocol == "netflow9":
		port = 2055
	case l.Transport == "tls":
		port = 4740
	default:
		port = 4739
	}
	return netip.AddrPortFrom(l.Address, port)
}

func (l *Collector) check(c *checker, path string) {
	c.takes(path, "a collector", l.Address, string(l.Transport), map[string]string{".ca": l.CA, ".certificate": l.Certificate, ".name": l.Name})
	c.seconds(path+".templates", l.Templates, 1, 3600)
	if l.Protocol == "netflow9" && l.Transport != "udp" {
		c.refuse(path+".transport", "NetFlow v9 is sent over udp only", "transport: udp, or protocol: ipfix", "")
	}
}

func (c *checker) flowLog() {
	l := c.cfg.FlowLog
	if l == nil {
		return
	}
	c.seconds("flow-log.interval", l.Interval, 10, 24*3600)
	if !c.cfg.Zoned() {
		c.refuse("flow-log", "without zones the kernel keeps no connections that could be logged", "a zone on an interface", "")
	}
	for name, one := range l.Collectors {
		one.check(c, joinPath("flow-log.collectors", name))
	}
}
