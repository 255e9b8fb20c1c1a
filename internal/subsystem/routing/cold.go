// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/base/thread"
)

// Cold start. bgpd counts each start as a graceful restart: it holds back the choice of paths until every peer has said all,
// and then chooses 10,000 a second. After a crash that keeps the kernel's routes while bgpd learns them again. When the
// kernel has none there is nothing to keep, and with a full table the router would have no routes for two minutes
// and a half (FRR 10.3). So a bgpd that begins without routes in the kernel defers nothing. FRR 8 never
// defers: hold.go keeps its routes.

// noDeferral is the line by which bgpd chooses paths as routes come.
const noDeferral = "bgp graceful-restart select-defer-time 0"

// protocolBGP is the protocol number of BGP's routes in the kernel (RTPROT_BGP).
const protocolBGP = 186

// errFound ends a dump at the first route.
var errFound = errors.New("found")

// keepsRoutes says whether the kernel has a route of bgpd, in any table.
func (h host) keepsRoutes(ctx context.Context) (found bool, err error) {
	thread.Alone(func() {
		var ns *os.File
		if ns, err = os.Open(h.netns); err != nil {
			return
		}
		defer ns.Close()
		if err = os.NewSyscallError("setns", unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)); err != nil {
			return
		}
		found, err = anyRoute(ctx, protocolBGP)
	})
	if err != nil {
		return false, fmt.Errorf("looking for routes of BGP in the kernel: %w", err)
	}
	return found, nil
}

// anyRoute says whether the kernel has a route of a protocol in the thread's network namespace.
func anyRoute(ctx context.Context, protocol byte) (bool, error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		s, err := nlmsg.Dial(unix.NETLINK_ROUTE, unix.NETLINK_GET_STRICT_CHK) // strict: the kernel leaves out other protocols
		if err != nil {
			return false, err
		}
		// struct rtmsg: family, two lengths, TOS, table, protocol, scope, type, flags (4 bytes)
		body := []byte{family, 0, 0, 0, 0, protocol, 0, 0, 0, 0, 0, 0}
		_, err = s.Ask(ctx, unix.RTM_GETROUTE, unix.NLM_F_DUMP, body, func(nlmsg.Message) error { return errFound })
		s.Close()
		if errors.Is(err, errFound) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
