// SPDX-License-Identifier: Apache-2.0

// Package services is the list of the services: the programs beside routing. A new one is a package below
// with a service.Descriptor, and a line here.
package services

import (
	"slices"
	"strings"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/admin"
	"minne/internal/subsystem/services/dhcpclient"
	"minne/internal/subsystem/services/dhcprelay"
	"minne/internal/subsystem/services/dhcpv6client"
	"minne/internal/subsystem/services/dnsmasq"
	"minne/internal/subsystem/services/flowexport"
	"minne/internal/subsystem/services/irdp"
	"minne/internal/subsystem/services/lldp"
	"minne/internal/subsystem/services/login"
	"minne/internal/subsystem/services/metrics"
	"minne/internal/subsystem/services/ntp"
	"minne/internal/subsystem/services/pppoe"
	"minne/internal/subsystem/services/resolv"
	"minne/internal/subsystem/services/service"
	"minne/internal/subsystem/services/ssh"
	"minne/internal/subsystem/services/syslog"
	"minne/internal/subsystem/services/tunnels"
	"minne/internal/subsystem/services/web"
	"minne/internal/subsystem/services/webhook"
	"minne/internal/subsystem/services/wifi"
	"minne/internal/subsystem/services/wireguard"
)

// All are the services in the order in which a commit puts them in place.
var All = []*service.Descriptor{
	&admin.Service,
	&wifi.Service, // whose links others serve
	&dhcpclient.Service,
	&dhcpv6client.Service,
	&pppoe.Service,
	&resolv.Service,
	&dnsmasq.Service,
	&dhcprelay.Service,
	&login.Service,
	&ntp.Service,
	&ssh.Service,
	&lldp.Service,
	&irdp.Service,
	&wireguard.Service,
	&tunnels.Service,
	&web.Service,
	&syslog.Service,
	&webhook.Service,
	&metrics.Service,
	&flowexport.Service,
}

// Openings are what the services of a configuration need of the firewall.
func Openings(cfg *config.Config) (list []policy.Opening) {
	for _, d := range All {
		if d.Openings != nil {
			list = append(list, d.Openings(cfg)...)
		}
	}
	return list
}

// Programs are all that the services run or ask.
func Programs() (list []service.Program) {
	for _, d := range All {
		list = append(list, d.Programs...)
	}
	return list
}

// Views are the states of the services that can be shown.
func Views() (list []service.View) {
	for _, d := range All {
		list = append(list, d.Views...)
	}
	return list
}

// Titles says in a few words which services there are: "DHCP, DNS, NTP and SSH".
func Titles() string {
	var list []string
	for _, d := range All {
		if d.Title != "" {
			list = append(list, strings.Split(d.Title, ", ")...)
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}
