// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// A table's owner is a netlink socket. When the last process that has it ends, anybody may delete or change
// the table. So a daemon gives the socket to a second process, the keeper, that does nothing but
// outlive it: "sleep infinity" with the socket as descriptor 3. The next daemon asks the kernel who
// owns the table, finds the process that has this socket, and takes it from there (pidfd_getfd).
// Nothing of this is kept in a file that could be lost or be wrong.

const (
	keeperProgram = "/bin/sleep"
	keeperName    = "sleep"
	keeperPause   = time.Second     // before one that has ended is started again
	ownerPatience = 2 * time.Second // for a process that is ending to let go of the socket
	tableOwnedBy  = 7               // NFTA_TABLE_OWNER
)

// owner is the socket that owns the tables of a network namespace: the rules and the guard behind them.
type owner struct {
	talk
	keeper *keeper // nil for none
}

// keeper is a process that keeps the socket open, by a handle that no other process can get.
type keeper struct {
	pidfd int
	child *exec.Cmd // nil for one of an earlier process
}

// owners are those of this process, by namespace. They are open as long as it lives.
var owners struct {
	sync.Mutex
	open map[string]*owner
	keep func(error) // nil when nobody keeps them
}

// KeepOwner has the owner of guards outlive this process, from the next guard that is written. tell is
// told whether a keeper runs: nil when it does.
func KeepOwner(tell func(error)) {
	owners.Lock()
	owners.keep = tell
	owners.Unlock()
}

// withOwner does something by the socket that owns a table, or is going to, in this network namespace.
func withOwner(table string, do func(o *owner) error) error {
	owners.Lock()
	defer owners.Unlock()
	o, err := ownerHere(table)
	if err != nil {
		return err
	}
	return do(o)
}

// ownerHere is the owner of a table in this network namespace. The caller holds owners.
func ownerHere(table string) (*owner, error) {
	space, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	o := owners.open[space]
	if o == nil {
		if o, err = inherit(table); err != nil {
			return nil, err
		}
		if owners.open == nil {
			owners.open = map[string]*owner{}
		}
		owners.open[space] = o
	}
	return o, nil
}

// run has the kernel do a batch, and tells its own answers by their sequence number: a daemon that hands over, or whoever
// else has the socket, may be reading, too.
func (o *owner) run(batch []byte) error {
	number := rand.Uint32()
	for at := 0; at < len(batch); at += nlmsg.Align(int(binary.NativeEndian.Uint32(batch[at:]))) {
		binary.NativeEndian.PutUint32(batch[at+8:], number)
	}
	if err := o.send(batch); err != nil {
		return err
	}
	_, err := o.answer(number, 0)
	for more := true; more; { // a batch may have several errors
		more, _ = o.answer(number, unix.MSG_DONTWAIT)
	}
	return err
}

// foreignPatience is how long an answer to somebody else is left to them. It is thrown away then: they have ended.
const foreignPatience = 100 * time.Millisecond

// answer waits for the kernel's answer to messages with a sequence number; came is false for an error in place of it.
func (o *owner) answer(number uint32, flags int) (came bool, err error) {
	buffer := make([]byte, 1<<12)
	var foreign uint32
	var since time.Time
	for {
		n, _, err := unix.Recvfrom(o.fd, buffer, flags|unix.MSG_PEEK)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, os.NewSyscallError("receive", err)
		}
		m, _, err := nlmsg.Next(buffer[:n])
		if err == nil && m.Seq != number {
			if since.IsZero() || m.Seq != foreign {
				foreign, since = m.Seq, time.Now()
			}
			if time.Since(since) < foreignPatience {
				time.Sleep(time.Millisecond)
				continue
			}
			since = time.Time{}
		}
		if _, _, err := unix.Recvfrom(o.fd, make([]byte, 1<<12), unix.MSG_DONTWAIT); err != nil && !errors.Is(err, unix.EAGAIN) {
			return false, os.NewSyscallError("receive", err)
		}
		switch {
		case err != nil:
			return false, err
		case m.Seq == number && m.Type == unix.NLMSG_ERROR:
			return true, m.Err()
		}
	}
}

// inherit takes the socket that owns a guard from the process that has it. Where there is none, or
// it can't be had, it opens one, after the guard has no owner any more.
func inherit(table string) (*owner, error) {
	for end := time.Now().Add(ownerPatience); ; time.Sleep(10 * time.Millisecond) {
		port, err := ownerOf(table)
		if err != nil {
			return nil, err
		}
		if port == 0 || time.Now().After(end) { // the kernel says what is wrong with the latter
			t, err := dial()
			return &owner{talk: t}, err
		}
		holders, err := holdersOf(port)
		if err != nil {
			return nil, err
		}
		for _, h := range holders {
			if o, err := h.take(port); err == nil {
				return o, nil
			}
		}
		for _, h := range holders {
			h.end()
		}
	}
}

// ownerOf is the port of the socket that owns a table of family inet, or another of Minne's; 0 for none.
func ownerOf(table string) (uint32, error) {
	for _, name := range append([]string{table}, ownTables...) {
		if d, err := describe(name); err != nil || d.owner != 0 {
			return d.owner, err
		}
	}
	return 0, nil
}

// holder is a process that has the socket that owns a guard.
type holder struct {
	pid, fd int
	socket  string // as /proc shows it
	keeper  bool   // it does nothing else
}

// socketOf is how /proc shows a socket of netfilter that has a port, "" when there is none.
func socketOf(port uint32) (string, error) {
	text, err := os.ReadFile("/proc/thread-self/net/netlink")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		// sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
		words := strings.Fields(line)
		if len(words) >= 10 && words[1] == strconv.Itoa(unix.NETLINK_NETFILTER) && words[2] == strconv.FormatUint(uint64(port), 10) {
			return "socket:[" + words[9] + "]", nil
		}
	}
	return "", nil
}

// holdersOf finds the other processes that have the socket of a port.
func holdersOf(port uint32) (list []holder, err error) {
	socket, err := socketOf(port)
	if err != nil || socket == "" {
		return nil, err
	}
	all, err := filepath.Glob("/proc/[0-9]*/fd/[0-9]*")
	if err != nil {
		return nil, err
	}
	self := "/proc/" + strconv.Itoa(os.Getpid()) + "/"
	for _, path := range all {
		if link, err := os.Readlink(path); err != nil || link != socket || strings.HasPrefix(path, self) {
			continue
		}
		h := holder{socket: socket}
		if _, err := fmt.Sscanf(path, "/proc/%d/fd/%d", &h.pid, &h.fd); err != nil {
			continue
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", h.pid))
		if h.keeper = err == nil && strings.TrimSpace(string(name)) == keeperName; h.keeper {
			list = slices.Insert(list, 0, h)
		} else {
			list = append(list, h)
		}
	}
	return list, nil
}

// open returns a pidfd of the holder, and of no later process that has its number.
func (h holder) open() (pidfd int, err error) {
	if pidfd, err = unix.PidfdOpen(h.pid, 0); err != nil {
		return -1, err
	}
	if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", h.pid, h.fd)); err != nil || link != h.socket {
		return -1, errors.Join(os.ErrProcessDone, unix.Close(pidfd))
	}
	return pidfd, nil
}

// take gets the socket from its holder. That it is the one that was looked for shows its port.
func (h holder) take(port uint32) (*owner, error) {
	pidfd, err := h.open()
	if err != nil {
		return nil, err
	}
	fd, err := unix.PidfdGetfd(pidfd, h.fd, 0) // closed on exec
	if err != nil {
		return nil, errors.Join(err, unix.Close(pidfd))
	}
	a, err := unix.Getsockname(fd)
	if of, ok := a.(*unix.SockaddrNetlink); err != nil || !ok || of.Pid != port {
		return nil, errors.Join(errors.New("another socket has its place"), err, unix.Close(fd), unix.Close(pidfd))
	}
	o := &owner{talk: talk{fd}}
	if !h.keeper {
		return o, unix.Close(pidfd)
	}
	o.keeper = &keeper{pidfd: pidfd}
	o.follow()
	return o, nil
}

// end ends a keeper whose socket can't be had: with it, the guard loses its owner.
func (h holder) end() {
	pidfd, err := h.open()
	if err != nil {
		return
	}
	if h.keeper {
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // it may have ended
	}
	_ = unix.Close(pidfd)
}

// startKeeper starts the process that outlives this one, if there shall be one and there is none.
func (o *owner) startKeeper() {
	if owners.keep == nil || o.keeper != nil {
		return
	}
	owners.keep(func() error {
		fd, err := unix.FcntlInt(uintptr(o.fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return fmt.Errorf("give away the packet filter's socket: %w", err)
		}
		socket := os.NewFile(uintptr(fd), "owner")
		defer socket.Close()
		c := exec.Command(keeperProgram, "infinity")
		c.Args[0] = keeperName
		c.Dir, c.Env, c.ExtraFiles = "/", []string{}, []*os.File{socket}
		pidfd := -1
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
		if err := c.Start(); err != nil {
			return fmt.Errorf("the table behind the rules can be deleted while no daemon runs: %w", err)
		}
		o.keeper = &keeper{pidfd, c}
		o.follow()
		return nil
	}())
}

// follow starts another keeper when the present one ends.
func (o *owner) follow() {
	k := o.keeper
	go func() {
		awaitEnd(k.pidfd, -1)
		if k.child != nil {
			_ = k.child.Wait() // it was killed
		}
		time.Sleep(keeperPause)
		owners.Lock()
		defer owners.Unlock()
		_ = unix.Close(k.pidfd)
		if o.keeper == k {
			o.keeper = nil
			o.startKeeper()
		}
	}()
}

// awaitEnd waits until a process has ended, in milliseconds at most; -1 for ever.
func awaitEnd(pidfd, most int) {
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, most); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// endKeeper ends the keeper, for good.
func (o *owner) endKeeper() {
	if k := o.keeper; k != nil {
		o.keeper = nil
		_ = unix.PidfdSendSignal(k.pidfd, unix.SIGKILL, nil, 0) // it may have ended
		awaitEnd(k.pidfd, 5000)
	}
}

// LetGo ends the keeper of a guard, which stays: when this process has ended, too, anybody may delete it.
func LetGo(table string) error {
	owners.Lock()
	defer owners.Unlock()
	owners.keep = nil
	for _, o := range owners.open {
		o.endKeeper()
	}
	if len(owners.open) > 0 {
		return nil
	}
	port, err := ownerOf(table)
	if err != nil || port == 0 {
		return err
	}
	o, err := inherit(table)
	if err != nil {
		return err
	}
	o.endKeeper()
	o.close()
	return nil
}
