// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/subsystem/uplinks"
)

// SwitchUplink takes an uplink out of use, or into use again.
var SwitchUplink = api.Operation[UplinkSwitch, api.Empty]{Method: "POST", Path: "/v1/uplink", Short: "Switch an uplink off or on", Root: true}

// UplinkSwitch asks for that.
type UplinkSwitch struct {
	Uplink string `json:"uplink"` // name of its interface
	On     bool   `json:"on"`
}

func (d *Daemon) answerUplink(r *http.Request, q UplinkSwitch) (api.Empty, error) {
	ctx, user := lasting(r)
	err := d.parts.uplinks.Switch(ctx, q.Uplink, q.On)
	if errors.Is(err, uplinks.ErrNoUplink) {
		err = &api.Error{Kind: api.Missing, Message: err.Error()}
	}
	if err == nil {
		d.parts.log.Info("uplink switched", "by", user, "uplink", q.Uplink, "on", q.On)
	}
	return api.Empty{}, err
}

// Uplinks is show uplinks.
var Uplinks = View[Nothing, show.UplinksView]{
	Text: Text{Path: "uplinks", Short: "Show the uplinks: which are used, why others are not, their checks", Aliases: []string{"uplink"}},
	Read: func(_ context.Context, d *Daemon, _ Nothing) (show.UplinksView, error) {
		return show.UplinksView{Uplinks: d.parts.uplinks.Observe()}, nil
	},
	Print: only[Nothing](show.Uplinks),
}

// PolicyRouting is show policy-routing.
var PolicyRouting = View[Nothing, show.PolicyRoutingView]{
	Text: Text{Path: "policy-routing", Short: "Show the rules of policy routing: which uplinks they choose, and which of them are passed on"},
	Read: func(_ context.Context, d *Daemon, _ Nothing) (show.PolicyRoutingView, error) {
		return show.PolicyRoutingView{Rules: d.parts.uplinks.ObservePolicy()}, nil
	},
	Print: only[Nothing](show.PolicyRouting),
}

// severUplink ends the connections that were translated to addresses of an uplink that has failed: what they send by another one
// would have the wrong source.
func severUplink(log *slog.Logger) func(context.Context, []netip.Addr) {
	return func(_ context.Context, own []netip.Addr) {
		ended := uint(0)
		for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			n, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, translatedTo(own))
			if err != nil && !errors.Is(err, unix.ENOENT) {
				log.Warn("cannot end connections of an uplink that failed", "error", err)
			}
			ended += n
		}
		if ended > 0 {
			log.Info("connections of an uplink ended", "connections", ended)
		}
	}
}

// translatedTo are addresses that connections were translated to.
type translatedTo []netip.Addr

// MatchConntrackFlow says whether a connection's source was translated to one of them.
func (t translatedTo) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	address := func(ip net.IP) netip.Addr {
		a, _ := netip.AddrFromSlice(ip)
		return a.Unmap()
	}
	to := address(f.Reverse.DstIP)
	return to != address(f.Forward.SrcIP) && slices.Contains(t, to)
}
