// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
)

// The screen: a list of the ports, then five questions, one more where there are more than two ports, one more for a Wi-Fi card, each with an
// answer that Enter takes. It is plain text that any terminal shows, a serial console of 80 by
// 24 characters too; only the first line clears what stood there.

const clearScreen = "\x1b[H\x1b[2J" // cursor home, clear

// conversation asks and reads lines.
type conversation struct {
	ctx      context.Context
	out      io.Writer
	lines    <-chan string // closed at the end of the input
	terminal *os.File      // where the lines come from; nil for no file
}

// errGone is the end of the console while it is asked.
var errGone = errors.New("no answer: the console was closed; nothing was changed")

// converse reads lines in the background: a console can't be read with an end in
// sight, and the questions end with ctx.
func converse(ctx context.Context, in io.Reader, out io.Writer) *conversation {
	lines := make(chan string)
	go func() {
		defer close(lines)
		r := bufio.NewScanner(in)
		r.Buffer(nil, 64<<10)
		for r.Scan() {
			select {
			case lines <- strings.TrimSpace(r.Text()):
			case <-ctx.Done():
				return
			}
		}
	}()
	terminal, _ := in.(*os.File)
	return &conversation{ctx, out, lines, terminal}
}

// line reads a line.
func (c *conversation) line() (string, error) {
	select {
	case text, ok := <-c.lines:
		if !ok {
			return "", errGone
		}
		return text, nil
	case <-c.ctx.Done():
		fmt.Fprintln(c.out)
		return "", errors.New("interrupted; nothing was changed")
	}
}

// ask puts a question until take has no objection to the answer.
func (c *conversation) ask(question, offer string, take func(string) error) error {
	for {
		fmt.Fprintf(c.out, "%s [%s]: ", question, offer)
		text, err := c.line()
		if err != nil {
			return err
		}
		text = cmp.Or(text, offer)
		if err = take(text); err == nil {
			return nil
		}
		fmt.Fprintf(c.out, "   %v\n", err)
	}
}

// screen asks the questions.
func (c *conversation) screen(a Answers, ports []Port) (Answers, error) {
	if _, err := (Answers{}).complete(ports); err != nil {
		return a, err
	}
	fmt.Fprint(c.out, clearScreen)
	fmt.Fprintln(c.out, "Minne: first setup. Enter accepts the value in brackets, Ctrl-C stops.")
	fmt.Fprintln(c.out)
	writePorts(c.out, ports)
	fmt.Fprintln(c.out)

	last := 3
	number := func() int { last++; return last }
	questions := []func() error{
		func() error {
			return c.ask("1. Which port leads to the Internet (WAN)?", fmt.Sprint(guessWAN(ports)+1), func(text string) error {
				i, ok := findPort(ports, text)
				if !ok {
					return fmt.Errorf("%q: expected a number from 1 to %d, or a name of the list", text, len(ports))
				}
				a.WAN = ports[i].Name
				return nil
			})
		},
		func() error {
			fmt.Fprintln(c.out, "2. How does the WAN get its address? dhcp, pppoe, pppoe VLAN,")
			i, _ := findPort(ports, a.WAN)
			offer := byDHCP
			if ports[i].PPPoE && !ports[i].Network.IsValid() {
				offer = byPPPoE
			}
			if err := c.ask("   or ADDRESS/LENGTH GATEWAY DNS-SERVER", offer, func(text string) error { return a.takeWAN(text) }); err != nil {
				return err
			}
			return c.askProvider(&a)
		},
		func() error {
			return c.ask("3. Address of this router in the LAN?", offerLAN(ports), func(text string) error {
				a.LAN = text
				if err := checkLAN(text); err != nil {
					return err
				}
				_, err := a.complete(ports)
				return err
			})
		},
		func() error {
			if len(ports) == 2 {
				return nil
			}
			return c.ask(fmt.Sprintf("%d. Ports inside: bridge (one network, as on a switch) or separate?", number()), bridged, func(text string) error {
				a.LANPorts = text
				return checkLANPorts(text)
			})
		},
		func() error { return c.askWiFi(&a, number) },
		func() error {
			return c.ask(fmt.Sprintf("%d. Name of this router?", number()), defaultHostname, func(text string) error {
				a.Hostname = text
				return checkHostname(text)
			})
		},
		func() error {
			fmt.Fprintf(c.out, "%d. Login by SSH from the LAN? A public key (paste its line), password, or off\n", number())
			return c.ask("  ", "off", func(text string) error {
				if err := a.takeSSH(text); err != nil {
					return err
				}
				_, err := a.complete(ports)
				return err
			})
		},
	}
	for _, q := range questions {
		if err := q(); err != nil {
			return a, err
		}
	}
	return a.complete(ports)
}

func writePorts(out io.Writer, ports []Port) {
	row := func(cells ...any) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf(" %2v  %-11v %-9v %-17v  %-10v %v", cells...), " "))
	}
	row("", "Port", "Driver", "MAC", "Link", "Behind it")
	for i, p := range ports {
		row(i+1, p.Name, p.Driver, p.MAC, p.link(), p.network())
	}
}

// askProvider asks for what a PPPoE session needs.
func (c *conversation) askProvider(a *Answers) error {
	if a.WANAddress != byPPPoE {
		return nil
	}
	for _, q := range []struct {
		question string
		into     *string
		hidden   bool
	}{{"   User name at the provider", &a.User, false}, {"   Password at the provider, which is not shown", &a.Secret, true}} {
		for *q.into == "" {
			fmt.Fprintf(c.out, "%s: ", q.question)
			shown := func() {}
			if q.hidden {
				shown = c.hide()
			}
			text, err := c.line()
			shown()
			if err != nil {
				return err
			}
			*q.into = text
		}
	}
	return nil
}

// hide keeps what is typed from being shown, until the returned function is called. A console that is no terminal shows nothing anyway.
func (c *conversation) hide() (shown func()) {
	if c.terminal == nil {
		return func() {}
	}
	was, err := unix.IoctlGetTermios(int(c.terminal.Fd()), unix.TCGETS)
	if err != nil {
		return func() {}
	}
	silent := *was
	silent.Lflag &^= unix.ECHO
	if unix.IoctlSetTermios(int(c.terminal.Fd()), unix.TCSETS, &silent) != nil {
		return func() {}
	}
	return func() {
		_ = unix.IoctlSetTermios(int(c.terminal.Fd()), unix.TCSETS, was) // the terminal was there a moment ago
		fmt.Fprintln(c.out)
	}
}

// takeWAN reads the answer to the second question.
func (a *Answers) takeWAN(text string) error {
	words := strings.Fields(text)
	b := *a
	b.WANAddress, b.WANGateway, b.WANDNS, b.VLAN = words[0], netip.Addr{}, nil, 0
	if err := checkWANAddress(b.WANAddress); err != nil {
		return err
	}
	if b.WANAddress == byPPPoE {
		if len(words) > 1 {
			id, err := strconv.Atoi(words[1])
			if err != nil || id < 1 || id > 4094 || len(words) > 2 {
				return fmt.Errorf("%q: expected pppoe, or pppoe and a VLAN from 1 to 4094", text)
			}
			b.VLAN = id
		}
		*a = b
		return nil
	}
	for i, word := range words[1:] {
		address, err := netip.ParseAddr(word)
		if err != nil {
			return fmt.Errorf("%q is not an address", word)
		}
		if i == 0 {
			b.WANGateway = address
		} else {
			b.WANDNS = append(b.WANDNS, address)
		}
	}
	if err := checkGateway(b); err != nil {
		return fmt.Errorf("%w; as 198.51.100.2/30 198.51.100.1 198.51.100.53", err)
	}
	*a = b
	return nil
}

// takeSSH reads the answer to the last question.
func (a *Answers) takeSSH(text string) error {
	a.SSHKeys = nil
	switch strings.ToLower(text) {
	case "off", "no", "none":
		a.SSH = "off"
		return nil
	case "password":
		a.SSH = "password"
		return nil
	}
	if err := config.CheckSSHKey(text); err != nil {
		return err
	}
	a.SSH, a.SSHKeys = "key", []string{text}
	return nil
}
