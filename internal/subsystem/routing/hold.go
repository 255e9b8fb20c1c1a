// SPDX-License-Identifier: Apache-2.0

// Routes that outlive a crash of their daemon, with FRR 8.
//
// zebra takes a protocol's routes out of the kernel when the protocol's connection ends, unless the protocol has asked
// it to hold them: the capability of graceful restart. bgpd always asks. ospfd and ospf6d ask from FRR 9 on
// (RFC 3623's unplanned outage); those of FRR 8 ask only at the command "graceful-restart prepare", which
// also tells all neighbours that a restart begins now: good for an upgrade, too late for a crash.
//
// zebra keeps the capability of a client that went away for the next client of the same protocol. So for FRR 8 this
// file asks in the daemon's place, in zebra's own protocol (lib/zclient.c of FRR 8.4; the numbers are the same
// in 8.5): connect, say hello as OSPF, ask, hang up. The daemon that starts next is the heir, and so is
// each successor of its. zebra holds the routes of a client in all tables or in none, but ends the hold table by table:
// it is asked for every table that it knows.
//
// BGP's routes of FRR 8 need the same way for another reason. bgpd tells zebra, family by family, that it has told all its
// routes, and zebra then removes what was not told again. It says so while routes still wait in its queue, and zebra,
// which never forgets what was complete before the crash, takes the first family that is complete for all of them. A client
// that says, in bgpd's place and before it starts, that one more family is pending, multicast, makes zebra wait until the
// stale time is over: nothing is removed early, and what peers withdrew while bgpd was away stays for that time. A peer
// without graceful restart ends the hold of its table: bgpd then calls all families complete.
//
// What neighbours do while an FRR 8 daemon restarts is theirs; see docs/design/routing.md.
package routing

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	zapiMarker       = 254 // of all versions since FRR 4
	zapiVersion      = 6
	zapiHello        = 18
	zapiCapabilities = 119 // ZEBRA_CLIENT_CAPABILITIES

	holdRoutes  = 1 // ZEBRA_CLIENT_GR_CAPABILITIES
	pending     = 3 // ZEBRA_CLIENT_ROUTE_UPDATE_PENDING
	letRoutesGo = 4 // ZEBRA_CLIENT_GR_DISABLE

	afiIP, safiMulticast = uint32(1), uint32(2) // zebra's numbers are IANA's

	holdSeconds = 120 // as long as a graceful restart of OSPF may take, FRR's default
	defaultVRF  = uint32(0)

	zapiLast = 8 // the last major version that needs this, and whose numbers these are
)

// zapiProtocol are the protocols as zebra numbers them (lib/route_types.txt).
var zapiProtocol = map[string]byte{ospfd: 6, ospf6d: 7, bgpd: 9}

func (h host) zapiSocket() string { return filepath.Join(h.runDir(), "zserv.api") }

// holdFor tells zebra whether to hold the routes of a daemon that is about to start or to reconnect. What
// a commit changes about it therefore holds from the daemon's next start on.
func (r *Routing) holdFor(ctx context.Context, daemon string, d Desired) error {
	protocol, ok := zapiProtocol[daemon]
	if !ok {
		return nil
	}
	old, err := r.zebraNeedsAsking(ctx)
	if err != nil || !old {
		return err
	}
	name := strings.TrimSuffix(daemon, "d")
	if names, err := r.clients(ctx); err != nil || names[name] {
		return err // it is there already: nobody can ask for it any more
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	tables, err := r.tables(ctx)
	if err != nil {
		return err
	}
	hold := strings.Contains(d.text[daemon], "\n graceful-restart\n")
	request := holdRequest(protocol, tables, hold)
	if daemon == bgpd {
		hold = strings.Contains(d.text[bgpd], "\n bgp graceful-restart\n")
		if keeps, err := r.host.keepsRoutes(ctx); err != nil || !keeps || !hold {
			return err
		}
		request = pendingRequest(protocol, tables)
	}
	if err := r.ask(ctx, name, request, tables, hold); err != nil {
		return fmt.Errorf("ask zebra to hold the routes of a %s that crashes: %w", daemon, err)
	}
	return nil
}

// letGo ends the hold of the routes of a daemon that has ended for good, and zebra removes them: those that an earlier
// process told before it crashed, and this one had not learned again. FRR 9 and newer: an error.
func (r *Routing) letGo(ctx context.Context, daemon string) error {
	protocol, ok := zapiProtocol[daemon]
	if old, err := r.zebraNeedsAsking(ctx); err != nil || !old || !ok {
		return errors.Join(err, fmt.Errorf("zebra of this release can't be asked to remove routes of %s", daemon))
	}
	name := strings.TrimSuffix(daemon, "d")
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	for {
		names, err := r.clients(ctx)
		if err != nil {
			return err
		}
		if !names[name] { // zebra has seen it hang up
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("zebra still has it as a client: %w", ctx.Err())
		case <-time.After(joinPoll / 10):
		}
	}
	tables, err := r.tables(ctx)
	if err != nil {
		return err
	}
	return r.ask(ctx, name, holdRequest(protocol, tables, false), tables, false)
}

// ask is the short life of a client in a daemon's place. hold says whether zebra holds the client's routes in the tables
// when it has worked off the request.
func (r *Routing) ask(ctx context.Context, name string, request []byte, tables map[string]uint32, hold bool) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: r.host.zapiSocket()})
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := conn.Write(request); err != nil {
		return err
	}
	// zebra forgets what it has not worked off when a client hangs up.
	for {
		known, holds, err := r.holds(ctx, name)
		if err != nil {
			return err
		}
		if missing := slices.ContainsFunc(sortedKeys(tables), func(vrf string) bool { return holds[vrf] != hold }); known && !missing {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("zebra did not understand it: %w", ctx.Err())
		case <-time.After(joinPoll / 10):
		}
	}
	if err := conn.CloseWrite(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		return err
	}
	// zebra answers from the thread that buries its clients: after this answer the heir can come.
	if known, _, err := r.holds(ctx, name); err != nil || known {
		return errors.Join(err, fmt.Errorf("zebra does not release it"))
	}
	return nil
}

// holds says whether a protocol is a client of zebra's, and in which tables zebra would hold its routes.
func (r *Routing) holds(ctx context.Context, name string) (known bool, tables map[string]bool, err error) {
	v, err := dialVTY(ctx, zebra, r.host.socket(zebra))
	if err != nil {
		return false, nil, err
	}
	defer v.close()
	text, err := v.command(ctx, "show zebra client")
	if err != nil {
		return false, nil, err
	}
	known, tables = heldTables(text, name)
	return known, tables, nil
}

// heldTables reads what zebra says of a client: "VRF : red" and, below, "Capabilities : Graceful Restart(120 seconds)".
func heldTables(text, name string) (known bool, tables map[string]bool) {
	tables = map[string]bool{}
	for section := range strings.SplitSeq(text, "Client: ") {
		title, rest, _ := strings.Cut(section, "\n")
		if strings.TrimSpace(title) != name {
			continue
		}
		known = true
		vrf := ""
		for line := range strings.Lines(rest) {
			if name, ok := strings.CutPrefix(line, "VRF : "); ok {
				vrf = strings.TrimSpace(name)
			} else if vrf != "" && strings.Contains(line, "Graceful Restart(") {
				tables[vrf] = true
			}
		}
	}
	return known, tables
}

// tables are zebra's numbers of the tables that it has, by its names: the main one, and those of the VRFs that the kernel has.
func (r *Routing) tables(ctx context.Context) (map[string]uint32, error) {
	text, err := r.answer(ctx, zebra, "show vrf")
	return vrfNumbers(text), err
}

// vrfNumbers reads lines as "vrf red id 5 table 100"; "vrf blue inactive" is of one that the kernel does not have.
func vrfNumbers(text string) map[string]uint32 {
	all := map[string]uint32{"default": defaultVRF}
	for line := range strings.Lines(text) {
		var name string
		var id uint32
		if n, _ := fmt.Sscanf(line, "vrf %s id %d", &name, &id); n == 2 && id != defaultVRF {
			all[name] = id
		}
	}
	return all
}

// zebraNeedsAsking says whether this FRR's OSPF daemons don't ask for themselves.
func (r *Routing) zebraNeedsAsking(ctx context.Context) (bool, error) {
	v, err := dialVTY(ctx, zebra, r.host.socket(zebra))
	if err != nil {
		return false, err
	}
	defer v.close()
	major, _, err := v.version(ctx)
	return major <= zapiLast, err
}

// holdRequest is what such a client says: hello as a protocol, and whether to hold its routes in some tables.
func holdRequest(protocol byte, tables map[string]uint32, hold bool) []byte {
	b := hello(protocol)
	for _, name := range sortedKeys(tables) {
		if hold {
			b = message(b, zapiCapabilities, uint32(holdRoutes), uint32(holdSeconds), tables[name])
		} else {
			b = message(b, zapiCapabilities, uint32(letRoutesGo), tables[name])
		}
	}
	return b
}

// pendingRequest says hello as a protocol, and that one family of each table is not complete. It asks for the hold as well: a
// zebra that is as new as the daemon knows nothing of it, and would remove the routes when this client hangs up. zebra does
// not show what is pending, but works off in one go what came in one piece.
func pendingRequest(protocol byte, tables map[string]uint32) []byte {
	b := hello(protocol)
	for _, name := range sortedKeys(tables) {
		b = message(b, zapiCapabilities, uint32(holdRoutes), uint32(ribStaleTime), tables[name])
		b = message(b, zapiCapabilities, uint32(pending), afiIP, safiMulticast, tables[name])
	}
	return b
}

func hello(protocol byte) []byte {
	const instance, session, notify, synchronous = uint16(0), uint32(0), byte(0), byte(0)
	return message(nil, zapiHello, protocol, instance, session, notify, synchronous)
}

// message appends a message to zebra: its header and the values of its body, in network byte order.
func message(b []byte, command uint16, body ...any) []byte {
	var content bytes.Buffer
	for _, v := range body {
		binary.Write(&content, binary.BigEndian, v)
	}
	const header = 10 // bytes
	var head bytes.Buffer
	for _, v := range []any{uint16(header + content.Len()), byte(zapiMarker), byte(zapiVersion), defaultVRF, command} {
		binary.Write(&head, binary.BigEndian, v)
	}
	return append(append(b, head.Bytes()...), content.Bytes()...)
}
