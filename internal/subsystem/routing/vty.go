// SPDX-License-Identifier: Apache-2.0

// The command socket of an FRR daemon.
//
// A command is its text and a NUL byte. The answer is text, three NUL bytes and one byte of return code:
// 0 done, 1 done with a warning, anything else refused. This has been FRR's (and Quagga's) protocol between
// vtysh and the daemons for two decades.
package routing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// vtyTimeout bounds one command. bgpd answers between two batches of routes; with two
// full tables arriving that has been seen to take seconds.
const vtyTimeout = 60 * time.Second

// vty is a connection to one daemon.
type vty struct {
	daemon string
	conn   net.Conn
}

// refused is FRR's answer to a command it did not take.
type refused struct {
	daemon, line, answer string
}

func (e *refused) Error() string {
	answer := strings.Join(strings.Fields(redact(e.answer)), " ")
	if strings.Contains(answer, "Unknown command") {
		answer = "unknown command"
	}
	return fmt.Sprintf("%s refused %q: %s", e.daemon, redact(strings.TrimSpace(e.line)), answer)
}

// dialVTY connects to a daemon and enters enable mode, the mode of show commands.
func dialVTY(ctx context.Context, daemon, socket string) (*vty, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer on its command socket: %w", daemon, err)
	}
	v := &vty{daemon: daemon, conn: conn}
	if _, err := v.command(ctx, "enable"); err != nil {
		conn.Close()
		return nil, err
	}
	return v, nil
}

func (v *vty) close() { v.conn.Close() }

// command runs one line and returns its text. A line with a control character is never sent.
func (v *vty) command(ctx context.Context, line string) (string, error) {
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("%s: a command holds a control character: %q", v.daemon, redact(line))
	}
	deadline := time.Now().Add(vtyTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := v.conn.SetDeadline(deadline); err != nil {
		return "", fmt.Errorf("%s: %w", v.daemon, err)
	}
	stop := context.AfterFunc(ctx, func() { v.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer, code, err := v.exchange(line)
	if err != nil {
		return "", fmt.Errorf("%s: %q: %w", v.daemon, redact(line), errors.Join(err, ctx.Err()))
	}
	if code > 1 {
		return "", &refused{v.daemon, line, answer}
	}
	return answer, nil
}

func (v *vty) exchange(line string) (string, byte, error) {
	if _, err := v.conn.Write(append([]byte(line), 0)); err != nil {
		return "", 0, err
	}
	var answer bytes.Buffer
	chunk := make([]byte, 64<<10)
	for {
		n, err := v.conn.Read(chunk)
		answer.Write(chunk[:n])
		// The end is looked for in all that has come: three NULs and the code.
		if b := answer.Bytes(); len(b) >= 4 && bytes.Equal(b[len(b)-4:len(b)-1], []byte{0, 0, 0}) {
			return string(bytes.TrimRight(b[:len(b)-4], "\x00")), b[len(b)-1], nil
		}
		if err != nil {
			return "", 0, fmt.Errorf("the daemon ended the connection: %w", err)
		}
	}
}

// configure sends configuration commands and returns how many were taken. It stops at the first one refused.
//
// The brackets around them are what vtysh sends around a file: bgpd opens no new session in between,
// which would otherwise start without the families and policies that the next lines bring.
func (v *vty) configure(ctx context.Context, commands []string) (taken int, err error) {
	for _, c := range []string{"configure terminal", "XFRR_start_configuration"} {
		if _, err := v.command(ctx, c); err != nil {
			return 0, err
		}
	}
	for _, c := range commands {
		if _, err = v.command(ctx, c); err != nil {
			break
		}
		taken++
	}
	v.command(ctx, "end")
	v.command(ctx, "configure terminal")
	_, end := v.command(ctx, "XFRR_end_configuration")
	v.command(ctx, "end")
	return taken, errors.Join(err, end)
}

// running returns the daemon's running configuration.
func (v *vty) running(ctx context.Context) (*node, error) {
	text, err := v.command(ctx, "show running-config")
	if err != nil {
		return nil, err
	}
	return parse(text), nil
}

var versionRE = regexp.MustCompile(`FRRouting (\d+)\.(\d+)`)

// version returns the daemon's major and minor version.
func (v *vty) version(ctx context.Context) (major, minor int, err error) {
	text, err := v.command(ctx, "show version")
	if err != nil {
		return 0, 0, err
	}
	m := versionRE.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, fmt.Errorf("%s: no version in its answer to \"show version\"", v.daemon)
	}
	major, err1 := strconv.Atoi(m[1])
	minor, err2 := strconv.Atoi(m[2])
	return major, minor, errors.Join(err1, err2)
}

// needs lists the commands that take a newer FRR than the oldest one supported, with the reason.
var needs = []struct {
	daemon       string
	line         *regexp.Regexp
	major, minor int
	why          string
}{
	// Older ones compute the digest with the protocol number in the wrong byte order, so only FRRs of
	// the same age understand each other.
	{ospf6d, regexp.MustCompile(`^ipv6 ospf6 authentication `), 9, 1,
		"OSPFv3 authentication as in RFC 7166 needs FRR 9.1 or newer, this is %d.%d, whose digest no other router accepts; upgrade FRR or remove auth below routing.ospf3"},
}

// fit takes out of a desired configuration what helps an older FRR and harms this one. have is the running configuration,
// kept says whether the kernel has routes of BGP.
func (v *vty) fit(ctx context.Context, have, want *node, kept func(context.Context) (bool, error)) error {
	if v.daemon != bgpd || !slices.ContainsFunc(flat(want), isNoDeferral) {
		return nil
	}
	major, _, err := v.version(ctx)
	if err != nil || major < 9 {
		return err
	}
	// A newer bgpd that defers nothing tells zebra at once that it has all its routes: after a crash zebra would take
	// them out of the kernel until the peers have told them again. In a bgpd that runs the line changes nothing any more.
	runs := slices.ContainsFunc(have.sub, func(n *node) bool { return strings.HasPrefix(n.line, "router bgp ") })
	stays := slices.ContainsFunc(flat(have), isNoDeferral)
	if !runs {
		routes, err := kept(ctx)
		if err != nil {
			return err
		}
		stays = !routes
	}
	if stays {
		return nil
	}
	for _, context := range want.sub {
		context.sub = slices.DeleteFunc(context.sub, func(n *node) bool { return isNoDeferral(n.line) })
	}
	return nil
}

func isNoDeferral(line string) bool { return strings.HasSuffix(line, noDeferral) }

// supports returns an error when the configuration needs a newer daemon.
func (v *vty) supports(ctx context.Context, want *node) error {
	for _, n := range needs {
		if n.daemon != v.daemon || !slices.ContainsFunc(flat(want), n.line.MatchString) {
			continue
		}
		major, minor, err := v.version(ctx)
		if err != nil {
			return err
		}
		if major < n.major || major == n.major && minor < n.minor {
			return fmt.Errorf(n.why, major, minor)
		}
	}
	return nil
}
