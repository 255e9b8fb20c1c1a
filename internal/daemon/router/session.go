// SPDX-License-Identifier: Apache-2.0

package router

import (
	"net/netip"
	"strings"

	"minne/internal/model/api"
)

// cutSession says why the firewall of a configuration would end the login of who
// asks for it, "" when it would not.
func cutSession(in Input, q api.Commit) string {
	client, server, ok := loginOf(q.Session)
	if !ok || in.Config == nil {
		return ""
	}
	return in.Firewall.Cuts(in.Config, client, server)
}

// loginOf reads what sshd(8) puts into SSH_CONNECTION: address and port of the
// client, then of the server. Anything else is no login by SSH.
func loginOf(session string) (client, server netip.AddrPort, ok bool) {
	f := strings.Fields(session)
	if len(f) != 4 {
		return client, server, false
	}
	ends := [2]netip.AddrPort{}
	for i := range ends {
		a, err := netip.ParseAddrPort(bracketed(f[2*i]) + ":" + f[2*i+1])
		if err != nil {
			return client, server, false
		}
		ends[i] = netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
	}
	return ends[0], ends[1], true
}

func bracketed(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}
