// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ACME is a certificate authority that gives certificates by itself (RFC 8555).
type ACME struct {
	Directory     string   `yaml:"directory" json:"directory,omitempty" doc:"URL of the authority's directory. Who writes this section agrees to the authority's terms of service." default:"https://acme-v02.api.letsencrypt.org/directory"`
	CACertificate string   `yaml:"ca-certificate" json:"ca-certificate,omitempty" doc:"File with the certificate (PEM) of who signed the directory's own, for an authority of your own. Absent: those that the system trusts." names:"file" example:"campus-ca.pem"`
	Email         string   `yaml:"email" json:"email,omitempty" doc:"Whom the authority may write to." example:"noc@campus.example"`
	Interfaces    []string `yaml:"interfaces" json:"interfaces" doc:"Interfaces by which the authority reaches port 80 of the router, under the address that the public DNS has for name (http-01). The port is open there, but something listens only while a certificate is being ordered." required:"true" example:"wan" names:"interface"`
}

func (a *ACME) check(c *checker, path string) {
	u, err := url.Parse(a.Directory)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		c.refuse(path+".directory", fmt.Sprintf("%q is no address of a directory", abridge(a.Directory)), "https://HOST/PATH", "")
	} else if _, err := net.LookupPort("tcp", u.Port()); u.Port() != "" && err != nil {
		c.refuse(path+".directory", fmt.Sprintf("%q is no port", u.Port()), "a number from 1 to 65535", "")
	}
	if a.Email != "" && (strings.Count(a.Email, "@") != 1 || strings.ContainsAny(a.Email, " ,?<>\n")) {
		c.refuse(path+".email", fmt.Sprintf("%q is no address of e-mail", abridge(a.Email)), "as noc@campus.example", "")
	}
	if len(a.Interfaces) == 0 {
		c.refuse(path+".interfaces", "the list of interfaces is empty", "interfaces by which the authority reaches the router", "")
	}
	once(c, path+".interfaces", a.Interfaces, func(s string) string { return s })
	for i, name := range a.Interfaces {
		if w := c.cfg.Services.Web; w != nil && w.Port == 80 && slices.Contains(w.Interfaces, name) {
			c.refuse(indexPath(path+".interfaces", i), "the web page has port 80 there", "another port of services.web", "")
		}
		if c.vrfOf(name) != "" {
			c.refuse(indexPath(path+".interfaces", i), name+" is in a VRF", "an interface of the main table", "")
		}
	}
}

// Port is that of the directory's server.
func (a *ACME) Port() uint16 {
	if u, err := url.Parse(a.Directory); err == nil && u.Port() != "" {
		port, _ := strconv.ParseUint(u.Port(), 10, 16)
		return uint16(port)
	}
	return 443
}
