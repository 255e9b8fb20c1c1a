// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"minne/internal/base/ipnet"
	"minne/internal/model/config"
)

// The grammar of a rule. What is in brackets may be left out from the right:
//
//	rule        = action protocol [source ["from" ports] [destination [ports | type]]] {option}
//	action      = "permit" | "deny" | "reject"
//	source      = addresses
//	destination = addresses
//	addresses   = "any" | "self" | address {"," address}
//	address     = an IP address | a prefix | "@" set
//	ports       = port {"," port}
//	port        = a number | a range as 8000-8080 | a service | "@" set
//	type        = an ICMP type {"," an ICMP type}
//	option      = "log" [text] | "limit" number "/" ("s" | "m" | "h" | "d") ["burst" number] | "name" text | "schedule" schedule
//	text        = a word, or words in double quotes; after log always in quotes
//
// A word of a list must not have blanks around its commas.

// word is a word of a rule with its place.
type word struct {
	text   string
	at     int  // where it begins in the rule, in characters from 0
	quoted bool // it stood in double quotes, which are not part of text
}

// wordError is a word of a rule that can't be meant.
type wordError struct {
	word                       word
	message, expected, nearest string
}

func wrong(w word, expected, nearest, format string, args ...any) *wordError {
	return &wordError{w, fmt.Sprintf(format, args...), expected, nearest}
}

// shown limits what of a word is repeated in a message, in bytes.
const shown = 60

func abridge(text string) string {
	if len(text) <= shown {
		return text
	}
	cut := shown
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// split cuts a rule into its words.
func split(text string) ([]word, *wordError) {
	var all []word
	runes := []rune(text)
	for i := 0; i < len(runes); {
		if runes[i] == ' ' {
			i++
			continue
		}
		w := word{at: i}
		if runes[i] == '"' {
			end := slices.Index(runes[i+1:], '"')
			if end < 0 {
				w.text = string(runes[i:])
				return nil, wrong(w, `text between two "`, "", "the quote has no end")
			}
			w.quoted, w.text = true, string(runes[i+1:i+1+end])
			i += end + 2
		} else {
			end := slices.Index(runes[i:], ' ')
			if end < 0 {
				end = len(runes) - i
			}
			w.text = string(runes[i : i+end])
			i += end
		}
		all = append(all, w)
	}
	return all, nil
}

// reader takes a rule's words one after the other.
type reader struct {
	words []word
	end   word // an empty word behind the last
	names names
}

// names finds what a rule calls by name.
type names struct {
	set      func(w word) (int, SetKind, *wordError) // by a word as "@web"
	schedule func(w word) (*Schedule, *wordError)
}

func (r *reader) more() bool { return len(r.words) > 0 }

func (r *reader) next() word {
	w := r.words[0]
	r.words = r.words[1:]
	return w
}

// option reports whether the next word begins an option.
func (r *reader) option() bool {
	return r.more() && !r.words[0].quoted && slices.Contains(options, r.words[0].text)
}

// parsed is what a rule's text says; zones are still to come.
type parsed struct {
	rule             Rule
	source, target   word // where they stand, for messages
	fromSelf, toSelf bool
}

// parseRule reads a rule.
func parseRule(text string, names names) (parsed, *wordError) {
	all, err := split(text)
	if err != nil {
		return parsed{}, err
	}
	return parseWords(&reader{words: all, end: word{at: utf8.RuneCountInString(text)}, names: names}, text)
}

// parseWords reads a rule that is cut into words; text is what it is called.
func parseWords(r *reader, text string) (p parsed, err *wordError) {
	p.rule.Text = text
	if !r.more() {
		return p, wrong(r.end, "a rule as permit tcp any @web 443", "", "the rule is empty")
	}
	if p.rule.Action, err = parseAction(r.next()); err != nil {
		return p, err
	}
	if !r.more() {
		return p, wrong(r.end, "a protocol after "+p.rule.Action.String()+": any, tcp, udp, …", "", "the rule has no protocol")
	}
	if err := parseProtocol(r.next(), &p.rule); err != nil {
		return p, err
	}
	if err := r.match(&p); err != nil {
		return p, err
	}
	for r.more() {
		if err := r.parseOption(&p.rule); err != nil {
			return p, err
		}
	}
	return p, families(&p)
}

func parseAction(w word) (Action, *wordError) {
	if i := slices.Index(actionWords, w.text); i >= 0 && !w.quoted {
		return Action(i), nil
	}
	near := config.Nearest(strings.ToLower(w.text), actionWords)
	switch strings.ToLower(w.text) {
	case "allow", "accept", "pass", "permit":
		near = "permit"
	case "drop", "block", "deny":
		near = "deny"
	}
	return 0, wrong(w, "permit, deny or reject", near, "a rule can't begin with %q", abridge(w.text))
}

func parseProtocol(w word, rule *Rule) *wordError {
	if p, ok := protocolWords[w.text]; ok && !w.quoted {
		rule.Protocols, rule.ICMP = p.protocols, p.icmp
		return nil
	}
	if n, err := strconv.ParseUint(w.text, 10, 8); err == nil && strconv.Itoa(int(n)) == w.text {
		rule.Protocols = []uint8{uint8(n)}
		return nil
	}
	near := config.Nearest(strings.ToLower(w.text), words(protocolWords))
	switch strings.ToLower(w.text) {
	case "ip", "all", "*":
		near = "any"
	case "icmp6", "ipv6-icmp":
		near = "icmpv6"
	case "tcp+udp", "udp/tcp", "tcp,udp", "udp,tcp":
		near = "tcp/udp"
	}
	if _, ok := serviceWords[w.text]; ok {
		return wrong(w, "a protocol first, the service behind the destination: tcp any any "+w.text, near, "%q is a service, not a protocol", w.text)
	}
	expected := "a number from 0 to 255, or one of " + strings.Join(words(protocolWords), ", ")
	if near != "" {
		expected = ""
	}
	return wrong(w, expected, near, "there is no protocol %q", abridge(w.text))
}

// match reads source, destination and what follows them.
func (r *reader) match(p *parsed) (err *wordError) {
	rule := &p.rule
	rule.Source, rule.Destination = Addresses{Any: true}, Addresses{Any: true}
	rule.SourcePorts, rule.Ports = Ports{Any: true}, Ports{Any: true}
	if !r.more() || r.option() {
		return nil
	}
	p.source = r.next()
	if rule.Source, p.fromSelf, err = r.addresses(p.source, "source"); err != nil {
		return err
	}
	if r.more() && r.words[0].text == "from" && !r.words[0].quoted {
		from := r.next()
		if !r.more() {
			return wrong(r.end, "ports after from", "", "from without ports")
		}
		if !hasPorts(rule.Protocols) {
			return wrong(from, "tcp, udp, tcp/udp, sctp or dccp", "", "%s has no ports", p.protocol())
		}
		if rule.SourcePorts, err = r.ports(r.next()); err != nil {
			return err
		}
	}
	if !r.more() || r.option() {
		return nil
	}
	p.target = r.next()
	if rule.Destination, p.toSelf, err = r.addresses(p.target, "destination"); err != nil {
		return err
	}
	if !r.more() || r.option() {
		return nil
	}
	switch w := r.next(); {
	case hasPorts(rule.Protocols):
		rule.Ports, err = r.ports(w)
	case len(rule.Protocols) == 1 && icmpWords[rule.Protocols[0]] != nil && rule.ICMP == nil:
		rule.ICMP, err = icmpTypes(w, rule.Protocols[0])
	default:
		near := config.Nearest(w.text, options)
		if near != "" {
			return wrong(w, "", near, "unknown option %q", abridge(w.text))
		}
		return wrong(w, "log, limit, name or schedule; ports only with tcp, udp, tcp/udp, sctp and dccp", "", "%s can't be followed by %q", p.protocol(), abridge(w.text))
	}
	return err
}

// protocol is the rule's protocol as a word for messages.
func (p *parsed) protocol() string {
	if len(p.rule.Protocols) == 0 {
		return "protocol any"
	}
	return protocolName(p.rule.Protocols[0])
}

// addresses reads a list of addresses, or self.
func (r *reader) addresses(w word, what string) (a Addresses, self bool, _ *wordError) {
	if w.quoted {
		return a, false, wrong(w, "addresses without quotes", "", "a %s cannot be in quotes", what)
	}
	switch w.text {
	case AnyName:
		return Addresses{Any: true}, false, nil
	case SelfName:
		return Addresses{Any: true}, true, nil
	}
	for _, part := range parts(w) {
		if strings.HasPrefix(part.text, "@") {
			set, kind, err := r.names.set(part)
			if err != nil {
				return a, false, err
			}
			if kind == PortSet {
				return a, false, wrong(part, "a set of addresses or prefixes", "", "%s holds ports, not addresses", part.text)
			}
			a.Sets = append(a.Sets, set)
			continue
		}
		prefix, err := parseAddress(part, what)
		if err != nil {
			return a, false, err
		}
		a.Prefixes = append(a.Prefixes, prefix)
	}
	a.Prefixes = mergePrefixes(a.Prefixes)
	slices.Sort(a.Sets)
	a.Sets = slices.Compact(a.Sets)
	return a, false, nil
}

// parts cuts a list at its commas.
func parts(w word) []word {
	var all []word
	at := w.at
	for _, text := range strings.Split(w.text, ",") {
		all = append(all, word{text: text, at: at})
		at += utf8.RuneCountInString(text) + 1
	}
	return all
}

func parseAddress(w word, what string) (netip.Prefix, *wordError) {
	const form = "any, self, an address as 192.0.2.1, a prefix as 192.0.2.0/24, or a set as @NAME"
	if w.text == AnyName || w.text == SelfName {
		return netip.Prefix{}, wrong(w, "", "", "%s can't be in a list", w.text)
	}
	p, err := ipnet.Parse(w.text)
	if err != nil {
		if strings.Trim(w.text, "0123456789-") == "" && w.text != "" {
			return p, wrong(w, form+"; ports come after the destination", "", "%s instead of the %s", abridge(w.text), what)
		}
		near := config.Nearest(w.text, []string{AnyName, SelfName})
		if near != "" {
			return p, wrong(w, "", near, "%q is not a valid %s", abridge(w.text), what)
		}
		return p, wrong(w, form, "", "%q is not a valid %s", abridge(w.text), what)
	}
	if p.Masked() != p {
		return p, wrong(w, "a network without host bits", p.Masked().String(), "%s has host bits", w.text)
	}
	return p, nil
}

// ports reads a list of ports.
func (r *reader) ports(w word) (p Ports, _ *wordError) {
	if w.quoted {
		return p, wrong(w, "ports without quotes", "", "ports cannot be in quotes")
	}
	for _, part := range parts(w) {
		if strings.HasPrefix(part.text, "@") {
			set, kind, err := r.names.set(part)
			if err != nil {
				return p, err
			}
			if kind != PortSet {
				return p, wrong(part, "a set of ports", "", "%s holds addresses, not ports", part.text)
			}
			p.Sets = append(p.Sets, set)
			continue
		}
		ports, err := parsePort(part)
		if err != nil {
			return p, err
		}
		p.Ranges = append(p.Ranges, ports)
	}
	p.Ranges = mergePorts(p.Ranges)
	slices.Sort(p.Sets)
	p.Sets = slices.Compact(p.Sets)
	return p, nil
}

func parsePort(w word) (PortRange, *wordError) {
	const form = "a port from 0 to 65535, a range as 8000-8080, or a service as https"
	if port, ok := serviceWords[w.text]; ok {
		return PortRange{port, port}, nil
	}
	first, last, isRange := strings.Cut(w.text, "-")
	a, errA := portNumber(first)
	b, errB := a, errA
	if isRange {
		b, errB = portNumber(last)
	}
	switch {
	case errA != nil || errB != nil:
		near := config.Nearest(strings.ToLower(w.text), append(words(serviceWords), options...))
		if strings.Contains(w.text, ":") {
			near = strings.ReplaceAll(w.text, ":", "-")
		}
		if near != "" {
			return PortRange{}, wrong(w, "", near, "there is no port %q", abridge(w.text))
		}
		return PortRange{}, wrong(w, form, "", "there is no port %q", abridge(w.text))
	case a > b:
		return PortRange{}, wrong(w, "the lower port first", fmt.Sprintf("%d-%d", b, a), "the range %s is backwards", w.text)
	}
	return PortRange{a, b}, nil
}

// portNumber reads a port without sign or leading zeros.
func portNumber(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && strconv.Itoa(int(n)) != text {
		err = strconv.ErrSyntax
	}
	return uint16(n), err
}

func icmpTypes(w word, protocol uint8) (list []ICMPType, _ *wordError) {
	for _, part := range parts(w) {
		number, ok := icmpWords[protocol][part.text]
		if !ok {
			n, err := strconv.ParseUint(part.text, 10, 8)
			if err != nil || strconv.Itoa(int(n)) != part.text {
				all := words(icmpWords[protocol])
				near := config.Nearest(strings.ReplaceAll(strings.ToLower(part.text), "neighbor", "neighbour"), append(all, options...))
				expected := ""
				if near == "" {
					expected = "a number from 0 to 255, or one of " + strings.Join(all, ", ")
				}
				return nil, wrong(part, expected, near, "%s has no type %q", protocolName(protocol), abridge(part.text))
			}
			number = uint8(n)
		}
		list = append(list, ICMPType{protocol, number})
	}
	slices.SortFunc(list, func(a, b ICMPType) int { return int(a.Type) - int(b.Type) })
	return slices.Compact(list), nil
}

// maxText bounds names and log prefixes: the kernel takes log prefixes of 127
// characters, and comments of 128 in front of which the rule's number stands.
const maxText = 48

func (r *reader) parseOption(rule *Rule) *wordError {
	w := r.next()
	switch {
	case w.quoted:
	case w.text == "log" && rule.Log == nil:
		rule.Log = &Log{}
		if r.more() && r.words[0].quoted {
			text := r.next()
			rule.Log.Prefix = text.text
			return plainText(text)
		}
		return nil
	case w.text == "limit" && rule.Limit == nil:
		return r.limit(w, rule)
	case w.text == "name" && rule.Name == "":
		if !r.more() {
			return wrong(r.end, "a word, or words in double quotes", "", "name without a name")
		}
		name := r.next()
		rule.Name = name.text
		return plainText(name)
	case w.text == "schedule" && rule.Schedule == nil:
		if !r.more() {
			return wrong(r.end, "the name of a schedule", "", "schedule without a name")
		}
		found, err := r.names.schedule(r.next())
		rule.Schedule = found
		return err
	case slices.Contains(options, w.text):
		return wrong(w, "each option once", "", "%s is given twice", w.text)
	}
	near := config.Nearest(strings.ToLower(w.text), options)
	expected := ""
	if near == "" {
		expected = strings.Join(options[:len(options)-1], ", ") + " or " + options[len(options)-1]
	}
	return wrong(w, expected, near, "unknown option %q", abridge(w.text))
}

// plainText refuses a text that can't stand in nftables and the log.
func plainText(w word) *wordError {
	bad := strings.ContainsFunc(w.text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
	if w.text == "" || len(w.text) > maxText || bad {
		return wrong(w, fmt.Sprintf("1 to %d plain ASCII characters, without quotes and backslashes", maxText), "", "the text can't be %q", abridge(w.text))
	}
	return nil
}

// maxRate bounds the number of a limit.
const maxRate = 10_000_000

func (r *reader) limit(at word, rule *Rule) *wordError {
	if rule.Action != Permit {
		return wrong(at, "limit in a rule that permits: above the limit it denies", "", "a rule that says %s can't have a limit", rule.Action)
	}
	if !r.more() {
		return wrong(r.end, rateForm, "", "limit without a rate")
	}
	limit, wrongRate := parseRate(r.next())
	if wrongRate != nil {
		return wrongRate
	}
	rule.Limit = limit
	if !r.more() || r.words[0].text != "burst" || r.words[0].quoted {
		return nil
	}
	r.next()
	if !r.more() {
		return wrong(r.end, "a number of packets", "", "burst without a number")
	}
	w := r.next()
	n, err := strconv.ParseUint(w.text, 10, 32)
	if err != nil || n == 0 || n > maxRate {
		return wrong(w, fmt.Sprintf("a number of packets from 1 to %d", maxRate), "", "%q is not a burst", abridge(w.text))
	}
	rule.Limit.Burst = int(n)
	return nil
}

const rateForm = "a rate as 100/s, 10/m, 5/h or 1/d"

// parseRate reads a rate as 100/s.
func parseRate(w word) (*Limit, *wordError) {
	number, per, _ := strings.Cut(w.text, "/")
	span, known := spans[per]
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || !known || n == 0 || n > maxRate || w.quoted {
		near := ""
		if letter := map[string]string{"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d"}[per]; letter != "" && err == nil {
			near = number + "/" + letter
		}
		return nil, wrong(w, rateForm, near, "%q is not a rate", abridge(w.text))
	}
	return &Limit{Rate: int(n), Per: span, Burst: defaultBurst}, nil
}

// defaultBurst is how many packets pass at once before a limit counts.
const defaultBurst = 5

// families finds the families that a rule is about, and refuses one that is about none.
func families(p *parsed) *wordError {
	rule := &p.rule
	rule.IPv4, rule.IPv6 = true, true
	if len(rule.Protocols) == 1 {
		rule.IPv4 = rule.Protocols[0] != protoICMPv6
		rule.IPv6 = rule.Protocols[0] != protoICMP
	}
	for _, side := range []struct {
		a  Addresses
		at word
	}{{rule.Source, p.source}, {rule.Destination, p.target}} {
		if side.a.Any || len(side.a.Sets) > 0 {
			continue
		}
		rule.IPv4 = rule.IPv4 && has(side.a.Prefixes, true)
		rule.IPv6 = rule.IPv6 && has(side.a.Prefixes, false)
		if !rule.IPv4 && !rule.IPv6 {
			return wrong(side.at, "one address family throughout; icmp is IPv4, icmpv6 is IPv6", "", "the rule can match no packet: %s is of the other address family", abridge(side.at.text))
		}
	}
	return nil
}

// has reports whether a prefix of IPv4, or of IPv6, is among some.
func has(prefixes []netip.Prefix, four bool) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Addr().Is4() == four })
}
