// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"
)

// Web is the API over HTTPS and the web page. The WAN is never meant: an interface is named or stays shut, and one
// that leads to the Internet is refused unless outside says that it is meant.
type Web struct {
	Interfaces  []string             `yaml:"interfaces" json:"interfaces" doc:"Interfaces by which people and programs reach the web page and the API." required:"true" example:"lan" names:"interface"`
	Port        int                  `yaml:"port" json:"port,omitempty" doc:"TCP port." default:"443" min:"1" max:"65535"`
	Outside     *OnOff               `yaml:"outside" json:"outside,omitempty" doc:"Allows interfaces that lead to the Internet: those with dhcp, dhcpv6 or pppoe, or with a static default route." default:"off" enum:"on,off"`
	Certificate string               `yaml:"certificate" json:"certificate,omitempty" doc:"File with the certificate and those above it (PEM). A relative path starts at the configuration's directory. Absent: the router makes a self-signed one." names:"file" example:"router.pem"`
	Key         string               `yaml:"key" json:"key,omitempty" doc:"File with the certificate's private key (PEM), mode 0600." names:"file" example:"router.key"`
	Users       map[string]*WebUser  `yaml:"users" json:"users,omitempty" doc:"Users of the web page by name. admin is always one when system.admin.password is there, with the role admin."`
	Tokens      map[string]*WebToken `yaml:"tokens" json:"tokens,omitempty" doc:"Tokens of programs that use the API, by name."`
}

// WebUser is somebody who logs in to the web page.
type WebUser struct {
	Role   string `yaml:"role" json:"role" doc:"What the user may do. read: look. operate: also clear sessions, connections and counters, and change sets. admin: everything." required:"true" enum:"read,operate,admin"`
	Secret string `yaml:"secret" json:"secret" doc:"Name of the secret that holds the password's hash ($6$…); minne web user makes it." required:"true" names:"secret"`
}

// WebToken lets a program use the API.
type WebToken struct {
	Role   string `yaml:"role" json:"role" doc:"What the program may do, as of a user." required:"true" enum:"read,operate,admin"`
	Secret string `yaml:"secret" json:"secret" doc:"Name of the secret that holds the token's SHA-256; minne web token makes it." required:"true" names:"secret"`
}

// Names of users and tokens stand in the log and beside revisions. Hashes are of the kinds that are computed without a
// library of C.
var (
	webName  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}$`)
	webHash  = regexp.MustCompile(`^\$6\$(rounds=[0-9]{1,7}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{86}$`)
	tokenSum = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

func (w *Web) check(c *checker, path string) {
	if len(w.Interfaces) == 0 {
		c.refuse(path+".interfaces", "the list of interfaces is empty", "interfaces for the web page, or no services.web", "")
	}
	once(c, path+".interfaces", w.Interfaces, func(s string) string { return s })
	for i, name := range w.Interfaces {
		c.webOn(indexPath(path+".interfaces", i), name, w.Outside.On())
	}
	switch {
	case w.Certificate != "" && w.Key == "":
		c.refuse(path+".certificate", "a certificate without its private key", "key: FILE", "")
	case w.Key != "" && w.Certificate == "":
		c.refuse(path+".key", "a private key without its certificate", "certificate: FILE", "")
	}
	if s := c.cfg.Services.SSH; s != nil && s.Port == w.Port {
		c.refuse(path+".port", fmt.Sprintf("SSH has the port %d", s.Port), "another port", "")
	}
	c.webAccounts(path, w)
}

// webOn refuses an interface that nobody inside is behind.
func (c *checker) webOn(path, name string, outside bool) {
	i := c.cfg.Interfaces[name]
	if i == nil {
		return
	}
	if c.cfg.Kind(name).Alone {
		c.refuse(path, name+" has no hosts to serve", "a port, VLAN, bond, bridge or tunnel", "")
		return
	}
	at := slices.IndexFunc(c.wans(), func(w wan) bool { return w.name == name })
	if at < 0 || outside {
		return
	}
	c.refuse(path, fmt.Sprintf("%s leads to the Internet, where everybody could try passwords", name),
		"an interface inside; or outside: on, if this is meant", "")
}

// webAccounts checks who may log in.
func (c *checker) webAccounts(path string, w *Web) {
	if c.cfg.System.Admin.Password == "" && len(w.Users) == 0 && len(w.Tokens) == 0 {
		c.refuse(path, "nobody can log in: there is no password of admin, no user and no token", "system.admin.password, or users: (minne web user add NAME)", "")
	}
	if name := c.cfg.System.Admin.Password; name != "" && w.Users["admin"] == nil && len(w.Users) == 0 && len(w.Tokens) == 0 {
		if hash, ok := c.secrets.Get(name); ok && hashForm.MatchString(hash) && !webHash.MatchString(hash) {
			c.refuse(path, "nobody can log in: the web page cannot check the kind of hash that admin's password has", "a hash that begins with $6$ in the secret "+name+" (minne web user passwd admin)", "")
		}
	}
	name := func(at, name string) {
		if !webName.MatchString(name) {
			c.refuse(at, fmt.Sprintf("%q is not a valid name", abridge(name)), "at most 32 small letters, digits, dots, dashes and underscores, a letter or digit first", "")
		}
	}
	for _, user := range sortedKeys(w.Users) {
		at := joinPath(path+".users", user)
		name(at, user)
		if u := w.Users[user]; u != nil {
			if hash, ok := c.secrets.Get(u.Secret); ok && !webHash.MatchString(hash) {
				c.refuse(at+".secret", "the secret is not a password hash that the web page can check", "what minne web user add writes, beginning with $6$", "")
			}
		}
	}
	for _, token := range sortedKeys(w.Tokens) {
		at := joinPath(path+".tokens", token)
		name(at, token)
		if t := w.Tokens[token]; t != nil {
			if sum, ok := c.secrets.Get(t.Secret); ok && !tokenSum.MatchString(sum) {
				c.refuse(at+".secret", "the secret is not the SHA-256 of a token", "what minne web token writes, beginning with sha256:", "")
			}
		}
	}
}
