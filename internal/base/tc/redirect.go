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
		var actions []netlink.Action
		switch all := f.(type) {
		case *netlink.MatchAll:
			actions = all.Actions
		case *netlink.U32:
			if all.Sel == nil {
				continue // the table that the filter is in
			}
			if len(all.Sel.Keys) == 1 && all.Sel.Keys[0].Mask == 0 {
				actions = all.Actions
			}
		}
		r.Own++
		if len(actions) == 1 && f.Attrs().Protocol == unix.ETH_P_ALL {
			if to, ok := actions[0].(*netlink.MirredAction); ok && to.MirredAction == netlink.TCA_EGRESS_REDIR {
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
	actions := []netlink.Action{netlink.NewMirredAction(to)}
	err := netlink.FilterAdd(&netlink.MatchAll{FilterAttrs: ownAt(link, netlink.HANDLE_MIN_INGRESS), Actions: actions})
	if errors.Is(err, unix.ENOENT) { // a kernel without matchall
		err = netlink.FilterAdd(&netlink.U32{FilterAttrs: ownAt(link, netlink.HANDLE_MIN_INGRESS), Actions: actions})
	}
	if err != nil {
		return fmt.Errorf("filter matchall or u32 with action mirred: %w", err)
	}
	return nil
}

// ownAt is what a filter of Minne's at a place has: the mark, and all protocols.
func ownAt(link int, parent uint32) netlink.FilterAttrs {
	return netlink.FilterAttrs{LinkIndex: link, Parent: parent, Priority: OwnPriority, Protocol: unix.ETH_P_ALL}
}

// removeFilters removes the filters with Minne's mark.
func removeFilters(link int) error {
	for _, f := range []netlink.Filter{&netlink.MatchAll{FilterAttrs: ownAt(link, netlink.HANDLE_MIN_INGRESS)}, &netlink.U32{FilterAttrs: ownAt(link, netlink.HANDLE_MIN_INGRESS)}} {
		err := netlink.FilterDel(f)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) { // there are none
			return err
		}
	}
	return nil
}

// Sorter is the program that finds the class of what a link sends through Minne's tree, by the kernel's number; 0 for none.
func Sorter(link int) (program int, err error) {
	filters, err := dump.Whole(func() ([]netlink.Filter, error) { return netlink.FilterList(byIndex(link), OwnHandle) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		return 0, nil // there is no tree
	}
	if err != nil {
		return 0, fmt.Errorf("list filters: %w", err)
	}
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok && b.DirectAction && f.Attrs().Priority == OwnPriority && f.Attrs().Protocol == unix.ETH_P_ALL {
			return b.Id, nil
		}
	}
	return 0, nil
}

// Sort has a program, by its file, find the classes, in place of the one before.
func Sort(link, program int) error {
	at := ownAt(link, OwnHandle)
	at.Handle = 1 // the same one is replaced
	err := netlink.FilterReplace(&netlink.BpfFilter{FilterAttrs: at, ClassId: OwnHandle, Fd: program, Name: "minne-plans", DirectAction: true})
	if err != nil {
		return fmt.Errorf("filter bpf: %w", err)
	}
	return nil
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
