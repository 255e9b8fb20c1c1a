// SPDX-License-Identifier: Apache-2.0

package bridges

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
	"minne/internal/base/nlmsg"
)

// Listener is told what changes. Calls come from two goroutines: bridges from one, stations from the other.
type Listener struct {
	Bridges func(State)
	// Stations are changes in the kernel's order; whole says that they are all that there are.
	Stations func(changes []Station, whole bool)
}

// Follower follows the bridges of the namespace in which it was made.
type Follower struct {
	log       *slog.Logger
	to        Listener
	quit      context.CancelFunc
	listeners []listener
}

// listener is a socket that hears notifications.
type listener struct {
	*os.File
	fd int
}

// Netlink groups (linux/rtnetlink.h) and messages about VLANs of bridges.
const (
	groupLink       = 1  // RTNLGRP_LINK: links, and ports of bridges
	groupNeighbours = 3  // RTNLGRP_NEIGH: stations, too
	groupVLANs      = 33 // RTNLGRP_BRVLAN, Linux 5.6

	getVLANs = 114 // RTM_GETVLAN
)

// Follow reads what there is, returns it, and tells changes until Close. It has joined the kernel's notifications before
// it reads: nothing is missed.
func Follow(log *slog.Logger, to Listener) (*Follower, State, []Station, error) {
	ctx, quit := context.WithCancel(context.Background())
	f := &Follower{log: log, to: to, quit: quit}
	links, err := f.join(groupLink, groupVLANs)
	if err != nil {
		f.Close()
		return nil, State{}, nil, err
	}
	neighbours, err := f.join(groupNeighbours)
	if err != nil {
		f.Close()
		return nil, State{}, nil, err
	}
	state, err := Read()
	if err == nil {
		var stations []Station
		if stations, err = readStations(); err == nil {
			go f.followBridges(ctx, links)
			go f.followStations(ctx, neighbours)
			return f, state, stations, nil
		}
	}
	f.Close()
	return nil, State{}, nil, err
}

// Close ends it. The listener may be told something once more.
func (f *Follower) Close() {
	f.quit()
	for _, e := range f.listeners {
		e.Close()
	}
}

func (f *Follower) join(groups ...int) (listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return listener{}, fmt.Errorf("netlink socket for bridges: %w", err)
	}
	one := listener{os.NewFile(uintptr(fd), "netlink"), fd}
	f.listeners = append(f.listeners, one)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return listener{}, fmt.Errorf("binding a netlink socket for bridges: %w", err)
	}
	for _, g := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
			return listener{}, fmt.Errorf("joining netlink group %d for bridges: %w", g, err)
		}
	}
	return one, nil
}

// idle is how many times as long as a reading took nothing is read: a fifth of a core at most, however fast links change.
const idle = 4

// followBridges reads all bridges again whenever something is said of a link or a VLAN.
func (f *Follower) followBridges(ctx context.Context, e listener) {
	buffer := make([]byte, 64<<10)
	for {
		if _, err := e.Read(buffer); err != nil && !errors.Is(err, unix.ENOBUFS) {
			f.gone(ctx, err)
			return
		}
		for err := error(nil); err == nil; { // what has been said meanwhile is part of the same change
			_, _, err = unix.Recvfrom(e.fd, buffer, unix.MSG_DONTWAIT)
		}
		start := time.Now()
		state, err := Read()
		if err != nil {
			f.log.Error("bridges can't be read: what they carry may be out of date", "error", err)
			continue
		}
		f.to.Bridges(state)
		select {
		case <-ctx.Done():
			return
		case <-time.After(idle * time.Since(start)):
		}
	}
}

// followStations tells what is said of stations; all of them when something was lost.
func (f *Follower) followStations(ctx context.Context, e listener) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := e.Read(buffer)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			all, err := readStations()
			if err != nil {
				f.log.Error("stations of bridges can't be read: what they carry may be out of date", "error", err)
				continue
			}
			f.to.Stations(all, true)
		case err != nil:
			f.gone(ctx, err)
			return
		default:
			if changes := decodeStations(buffer[:n]); len(changes) > 0 {
				f.to.Stations(changes, false)
			}
		}
	}
}

func (f *Follower) gone(ctx context.Context, err error) {
	if ctx.Err() == nil {
		f.log.Error("changes of bridges are not heard of any more", "error", err)
	}
}

// decodeStations reads one or several notifications.
func decodeStations(b []byte) (changes []Station) {
	for len(b) > 0 {
		m, rest, err := nlmsg.Next(b)
		if err != nil {
			break
		}
		if m.Type == unix.RTM_NEWNEIGH || m.Type == unix.RTM_DELNEIGH {
			if s, ok := decodeStation(m.Type, m.Body); ok {
				changes = append(changes, s)
			}
		}
		b = rest
	}
	return changes
}

// Read asks for all bridges, their ports and VLANs.
func Read() (State, error) {
	s := State{Bridges: map[int]*Bridge{}, Ports: map[int]*Port{}, Began: time.Now()}
	links, err := ask(unix.RTM_GETLINK, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC))
	if err != nil {
		return s, fmt.Errorf("asking for bridges: %w", err)
	}
	for _, body := range links {
		s.takeLink(body)
	}
	if len(s.Bridges) == 0 {
		return s, nil
	}
	vlans, err := ask(getVLANs, getVLANs-2, &vlanMessage{})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return s, nil // a kernel whose bridges know no VLANs
	}
	if err != nil {
		return s, fmt.Errorf("asking for the VLANs of bridges: %w", err)
	}
	for _, body := range vlans {
		s.takeVLANs(body)
	}
	return s, nil
}

// readStations asks for the stations of all bridges.
func readStations() ([]Station, error) {
	bodies, err := ask(unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, nl.NewIfInfomsg(unix.AF_BRIDGE))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // a kernel without bridges
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the stations of bridges: %w", err)
	}
	var all []Station
	for _, body := range bodies {
		if s, ok := decodeStation(unix.RTM_NEWNEIGH, body); ok {
			all = append(all, s)
		}
	}
	return all, nil
}

// vlanMessage is struct br_vlan_msg of a question about all devices.
type vlanMessage struct{}

func (*vlanMessage) Len() int { return sizeofVLANMessage }

func (*vlanMessage) Serialize() []byte {
	b := make([]byte, sizeofVLANMessage)
	b[0] = unix.AF_BRIDGE
	return b
}

func ask(kind, answers int, about nl.NetlinkRequestData) ([][]byte, error) {
	return dump.Whole(func() ([][]byte, error) {
		request := nl.NewNetlinkRequest(kind, unix.NLM_F_DUMP)
		request.AddData(about)
		return request.Execute(unix.NETLINK_ROUTE, uint16(answers))
	})
}

// pad returns b with at least so many bytes.
func pad(b []byte, length int) []byte {
	if len(b) >= length {
		return b
	}
	return append(slices.Clone(b), make([]byte, length-len(b))...)
}

// number is an integer of one, two or four bytes.
func number(b []byte) uint32 {
	switch len(b) {
	case 1:
		return uint32(b[0])
	case 2:
		return uint32(native.Uint16(b))
	}
	return native.Uint32(pad(b, 4))
}
