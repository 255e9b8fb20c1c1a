// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
)

// How the router tells others about itself: its log, its alarms, its figures.

// SyslogServer takes the router's log (RFC 5424).
type SyslogServer struct {
	Address   netip.Addr     `yaml:"address" json:"address" doc:"The server's address." required:"true" example:"192.0.2.20"`
	Transport SyslogWay      `yaml:"transport" json:"transport,omitempty" doc:"udp (RFC 5426) loses lines when the network or the server does. tcp (RFC 6587) and tls (RFC 5425) wait for the server: up to 2000 lines are kept in memory." default:"udp" enum:"udp,tcp,tls"`
	Port      int            `yaml:"port" json:"port,omitempty" doc:"Port. Absent: 514, with tls 6514." min:"1" max:"65535"`
	Level     SyslogSeverity `yaml:"level" json:"level,omitempty" doc:"The least severe lines that are sent." default:"info" enum:"info,warning,error"`
	CA        string         `yaml:"ca" json:"ca,omitempty" doc:"With tls: name of the secret that holds the certificate (PEM) of the authority that signed the server's. Absent: the authorities of the system." names:"secret"`
	Name      string         `yaml:"name" json:"name,omitempty" doc:"With tls: name in the server's certificate. Absent: its address." example:"logs.example.net"`
}

// Webhook takes the router's alarms as JSON.
type Webhook struct {
	URL   string `yaml:"url" json:"url" doc:"Where each turn of an alarm is sent to with POST: raised, changed, acknowledged, cleared." required:"true" example:"https://alarms.example.net/minne"`
	Token string `yaml:"token" json:"token,omitempty" doc:"Name of the secret that is sent as bearer token. Only over https." names:"secret"`
}

// Metrics serves the router's figures to Prometheus.
type Metrics struct {
	Interfaces []string `yaml:"interfaces" json:"interfaces" doc:"Interfaces whose hosts may read http://ROUTER:PORT/metrics; nobody else can. An interface towards the Internet is refused." required:"true" example:"lan" names:"interface"`
	Port       int      `yaml:"port" json:"port,omitempty" doc:"TCP port." default:"9100" min:"1" max:"65535"`
}

// The words of the enumerations.
type (
	SyslogWay      string
	SyslogSeverity string
)

func (s *SyslogServer) check(c *checker, path string) {
	c.takes(path, "a syslog server", s.Address, string(s.Transport), map[string]string{".ca": s.CA, ".name": s.Name})
}

// takes checks a server that takes what the router sends. certificates are the keys that only TLS has, and what they say.
func (c *checker) takes(path, what string, a netip.Addr, transport string, certificates map[string]string) {
	if a.IsValid() && (a.IsUnspecified() || a.IsMulticast()) {
		c.refuse(path+".address", a.String()+" is no host", "the address of "+what, "")
	}
	if transport == "tls" {
		return
	}
	for key, value := range certificates {
		if value != "" {
			c.refuse(path+key, "only tls has certificates", "transport: tls", "")
		}
	}
}

// At is where the server listens.
func (s *SyslogServer) At() netip.AddrPort {
	port := uint16(s.Port)
	switch {
	case port != 0:
	case s.Transport == "tls":
		port = 6514
	default:
		port = 514
	}
	return netip.AddrPortFrom(s.Address, port)
}

func (w *Webhook) check(c *checker, path string) {
	u, err := url.Parse(w.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		c.refuse(path+".url", fmt.Sprintf("%q is no address of a web server", w.URL), "https://HOST/PATH, with a token instead of a password in it", "")
		return
	}
	if w.Token != "" && u.Scheme != "https" {
		c.refuse(path+".token", "the token would be sent in clear text", "a url that begins with https://", "")
	}
	if port := u.Port(); port != "" {
		if _, err := net.LookupPort("tcp", port); err != nil {
			c.refuse(path+".url", fmt.Sprintf("%q is no port", port), "a number from 1 to 65535", "")
		}
	}
}

func (m *Metrics) check(c *checker, path string) {
	if len(m.Interfaces) == 0 {
		c.refuse(path+".interfaces", "no interface is named", "the interfaces whose hosts may read the figures, or no services.metrics", "")
	}
	c.servesAll(path+".interfaces", m.Interfaces, "figures")
	wans := c.wans()
	for i, name := range m.Interfaces {
		if slices.ContainsFunc(wans, func(w wan) bool { return w.name == name }) {
			c.refuse(indexPath(path+".interfaces", i), name+" leads to the Internet: everybody there could read the router's figures", "an interface inside", "")
		}
	}
	if ssh := c.cfg.Services.SSH; ssh != nil && ssh.Port == m.Port {
		c.refuse(path+".port", "services.ssh has this port", "another one", "")
	}
}
