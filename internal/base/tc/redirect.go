// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
)

// Redirected is what filters do with what a link receives.
type Redirected struct {
	To     int // index of the link that Minne's filter redirects all to; 0: there is none, or it is another one
	Own    int // filters with Minne's mark
	Others int // filters of others
}

// byIndex names a link to the netlink library.
func byIndex(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

// Redirects reads the filters on what a link receives.
func Redirects(link int) (r Redirected, err error) {
	filters, err := dump.Whole(func() ([]netlink.Filter, error) { return netlink.FilterList(byIndex(link), netlink.HANDLE_MIN_INGRESS) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		return r, nil // it takes no filters, or has gone
	}
	if err != nil {
		return r, fmt.Errorf("list filters: %w", err)
	}
	for _, f := range filters {
		if f.Attrs().Priority != OwnPriority {
			r.Others++
			continue
		}
		r.Own++
		if all, ok := f.(*netlink.MatchAll); ok && len(all.Actions) == 1 && f.Attrs().Protocol == unix.ETH_P_ALL {
			if to, ok := all.Actions[0].(*netlink.MirredAction); ok && to.MirredAction == netlink.TCA_EGRESS_REDIR {
				r.To = to.Ifindex
			}
		}
	}
	if r.Own != 1 {
		r.To = 0
	}
	return r, nil
}

// Redirect has all that a link receives leave by another one, with Minne's mark. Filters of others see it before, as their
// priorities say.
func Redirect(link, to int) error {
	q := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Parent: netlink.HANDLE_INGRESS, Handle: netlink.MakeHandle(0xffff, 0)}}
	if err := netlink.QdiscAdd(q); err != nil && !errors.Is(err, unix.EEXIST) { // or there is clsact
		return fmt.Errorf("queueing discipline ingress: %w", err)
	}
	if err := removeFilters(link); err != nil {
		return err
	}
	action := netlink.NewMirredAction(to)
	err := netlink.FilterAdd(&netlink.MatchAll{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: link, Parent: netlink.HANDLE_MIN_INGRESS, Priority: OwnPriority, Protocol: unix.ETH_P_ALL},
		Actions:     []netlink.Action{action},
	})
	if err != nil {
		return fmt.Errorf("filter matchall with action mirred: %w", err)
	}
	return nil
}

// removeFilters removes the filters with Minne's mark.
func removeFilters(link int) error {
	err := netlink.FilterDel(&netlink.MatchAll{FilterAttrs: netlink.FilterAttrs{LinkIndex: link, Parent: netlink.HANDLE_MIN_INGRESS, Priority: OwnPriority, Protocol: unix.ETH_P_ALL}})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) {
		return nil // there are none
	}
	return err
}

// EndRedirect takes Minne's filter away, and the discipline that it hung on when nothing else hangs there.
func EndRedirect(link int) error {
	if err := removeFilters(link); err != nil {
		return err
	}
	left, err := Redirects(link)
	if err != nil || left.Own+left.Others > 0 {
		return err
	}
	all, err := dump.Whole(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(byIndex(link)) })
	if err != nil {
		return err
	}
	for _, q := range all {
		if q.Type() == "ingress" {
			if err := netlink.QdiscDel(q); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
				return err
			}
		}
	}
	return nil
}
