// SPDX-License-Identifier: Apache-2.0

// Package loginbench measures how many people a second a Minne router lets in: each asks the login page for its form and sends a voucher's
// code, over TCP connections of their own, from a host with addresses of its own. The router's daemon has one processor.
//
//	people ──▶ in   router   out ──▶ people (nothing passes)
//
// All people are one node. The router has an entry of its neighbour table for each of their hosts, with a MAC address that no port has;
// a rule of nftables lets the node take what is sent there.
package loginbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/subsystem/services/login"
)

const (
	peopleNode, routerNode = "people", "router"
	inPort, outPort        = "in", "out"
	together               = 64 // people at the same time
	patience               = 30 * time.Second
)

var portal = netip.MustParseAddr("10.7.0.1")

const router = `version: 1
interfaces:
  in: {zone: inside, addresses: [10.7.0.1/16]}
  out: {zone: outside, addresses: [198.19.0.1/24]}
firewall:
  policies:
    - {from: inside, to: outside, default: permit}
services:
  dns: {interfaces: [in], upstream: [198.19.0.2]}
  login: {net: {interfaces: [in], users: [vouchers]}}
`

// Bed is a router, and people who have not logged in yet.
type Bed struct {
	lab    *lab.Lab
	people *lab.Running
	minne  *lab.Minne
	codes  []string
	next   int // who has not logged in
}

// New builds a router with vouchers for so many people. The caller closes it.
func New(ctx context.Context, binary string, people int) (*Bed, error) {
	if most := 1<<15 - 1; people > most {
		return nil, fmt.Errorf("%d people; the network has room for %d", people, most)
	}
	cable := func(port string) lab.Link {
		return lab.Link{A: lab.Port{Node: peopleNode, Name: port, Silent: true}, B: lab.Port{Node: routerNode, Name: port}}
	}
	l, err := lab.Start(ctx, lab.Topology{Nodes: []lab.Node{{Name: peopleNode}, {Name: routerNode}}, Links: []lab.Link{cable(inPort), cable(outPort)}})
	if err != nil {
		return nil, err
	}
	b := &Bed{lab: l, people: l.Node(peopleNode)}
	if err := b.build(ctx, binary, people); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return b, nil
}

// host is the address of somebody's host.
func host(n int) netip.Addr {
	n += 1 << 15 // the upper half of the network
	return netip.AddrFrom4([4]byte{10, 7, byte(n >> 8), byte(n)})
}

func (b *Bed) build(ctx context.Context, binary string, people int) (err error) {
	node := b.lab.Node(routerNode)
	if b.minne, err = node.Minne(binary, router, ""); err != nil {
		return err
	}
	if err := b.minne.StartDaemon(ctx); err != nil {
		return err
	}
	if _, err := b.minne.Command(ctx, "apply", b.minne.Config); err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, b.minne.Log(10))
	}
	_, mac, err := node.Port(inPort)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for n := range people {
		fmt.Fprintf(&lines, "neighbour replace %s lladdr 02:00:00:00:%02x:%02x dev %s nud permanent\n", host(n), n>>8, n&0xff, inPort)
	}
	file, err := b.minne.Write(ctx, "hosts.batch", lines.String())
	if err != nil {
		return err
	}
	if _, err := node.Run(ctx, "ip", "-batch", file); err != nil {
		return err
	}
	for _, command := range []string{
		"ip address add 10.7.0.2/16 dev in", "ip route add local 10.7.128.0/17 dev lo", "ip neighbour replace 10.7.0.1 lladdr " + mac.String() + " dev in nud permanent",
		"nft add table netdev people", "nft add chain netdev people in { type filter hook ingress device in priority 0; }", "nft add rule netdev people in meta pkttype set host",
		"ethtool -K in gro on tx off",
	} {
		if _, err := b.people.Run(ctx, "sh", "-c", "exec "+strings.NewReplacer("{", "'{", "}", "}'").Replace(command)); err != nil {
			return err
		}
	}
	var made login.Vouchers
	if err := b.minne.JSON(ctx, &made, "login", "voucher", "add", "--count", strconv.Itoa(people), "--time", "1d"); err != nil {
		return err
	}
	for _, v := range made.Vouchers {
		b.codes = append(b.codes, v.Code)
	}
	if len(b.codes) != people {
		return fmt.Errorf("%d vouchers, expected %d", len(b.codes), people)
	}
	return pin(b.minne.Pid())
}

// pin gives all threads of a process the first processor.
func pin(pid int) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		return errors.Join(err, fmt.Errorf("process %d has no threads", pid))
	}
	var one unix.CPUSet
	one.Set(0)
	for _, task := range tasks {
		thread, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(thread, &one); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("pin the daemon: %w", err)
		}
	}
	return nil
}

// Enter logs n more people in, and returns how long that took.
func (b *Bed) Enter(ctx context.Context, n int) (time.Duration, error) {
	first, last := b.next, b.next+n
	if last > len(b.codes) {
		return 0, fmt.Errorf("%d people are left, not %d", len(b.codes)-first, n)
	}
	b.next = last
	var turn atomic.Int64
	turn.Store(int64(first))
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	begin := time.Now()
	for range together {
		all.Go(func() {
			err := b.people.Do(func() error { // sockets are of the namespace of the thread that makes them
				for at := int(turn.Add(1)) - 1; at < last && ctx.Err() == nil; at = int(turn.Add(1)) - 1 {
					if err := enter(host(at), b.codes[at]); err != nil {
						return fmt.Errorf("%s: %w", host(at), err)
					}
				}
				return ctx.Err()
			})
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	all.Wait()
	return time.Since(begin), failed
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// enter is one person: the page, then its form.
func enter(from netip.Addr, code string) error {
	page, body, err := ask(from, "GET", "/", "")
	if err != nil {
		return err
	}
	token := tokenField.FindStringSubmatch(body)
	if page != http.StatusOK || token == nil {
		return fmt.Errorf("the login page: status %d: %.200s", page, body)
	}
	status, body, err := ask(from, "POST", "/login", url.Values{"token": {token[1]}, "voucher": {code}}.Encode())
	if err == nil && status != http.StatusSeeOther {
		err = fmt.Errorf("the voucher: status %d: %.300s", status, body)
	}
	return err
}

func ask(from netip.Addr, method, path, form string) (status int, body string, err error) {
	dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := dialer.Dial("tcp4", netip.AddrPortFrom(portal, 80).String())
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", method, path, portal, len(form), form); err != nil {
		return 0, "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	return answer.StatusCode, string(text), err
}

// Users is how many the router has logged in.
func (b *Bed) Users(ctx context.Context) (int, error) {
	var u login.Users
	err := b.minne.JSON(ctx, &u, "login", "list")
	return len(u.Users), err
}

// Close takes it down.
func (b *Bed) Close() error { return b.lab.Close() }
