// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"minne/internal/lab/traffic"
	"minne/internal/model/config"
)

// MaxPackets is how many packets a lap can have.
const MaxPackets = traffic.MaxDestinations

// word is one word of a pattern: key or key=value.
type word struct {
	text          string // as written
	key, value    string // key in lower case; value without quotes
	valued        bool
	column, width int // in characters
	valueColumn   int
	quoted        bool
}

// parser holds the pattern so far and which word said what.
type parser struct {
	text    string
	pattern Pattern
	said    map[string]word // by what it is about: "shape", "size" …
}

// keyword says what a word is about and what it does.
type keyword struct {
	about    string
	example  string // as a suggestion
	expected string // of its value; "" when it has none
	set      func(*Pattern, word) error
}

// Parse reads a pattern's words. Its errors are *Error.
func Parse(text string) (Pattern, error) {
	p := &parser{text: text, said: map[string]word{}, pattern: Pattern{
		Sizes: Sizes{Text: "64", Deck: []int{64}}, Family: Family{IPv4: 1}, Seed: 1,
	}}
	words, err := split(text)
	if err != nil {
		return Pattern{}, err
	}
	for _, w := range words {
		if err := p.take(w); err != nil {
			return Pattern{}, err
		}
	}
	if err := p.settle(); err != nil {
		return Pattern{}, err
	}
	return p.pattern, nil
}

// Options are a pattern as options of a command: Traffic holds any words, each
// other one is the value of the word of its name. Empty ones are left out.
type Options struct{ Traffic, Size, Family, Table, Draw string }

// Parse parses the options like one text.
func (o Options) Parse() (Pattern, error) {
	words := []string{}
	if o.Traffic != "" {
		words = append(words, o.Traffic)
	}
	for _, v := range []struct{ key, value string }{{"size", o.Size}, {"family", o.Family}, {"table", o.Table}, {"draw", o.Draw}} {
		if v.value != "" {
			words = append(words, v.key+"="+quoted(v.value))
		}
	}
	return Parse(strings.Join(words, " "))
}

// split cuts a text into words at white space. A value may be in double quotes.
func split(text string) (words []word, err error) {
	for at := 0; at < len(text); {
		if strings.IndexByte(" \t\r\n", text[at]) >= 0 {
			at++
			continue
		}
		end := at + strings.IndexAny(text[at:]+" ", " \t\r\n")
		w := word{key: text[at:end], column: utf8.RuneCountInString(text[:at])}
		if equals := strings.IndexByte(w.key, '='); equals >= 0 {
			begin := at + equals + 1
			w.key, w.value, w.valued = text[at:begin-1], text[begin:end], true
			w.valueColumn = w.column + utf8.RuneCountInString(text[at:begin])
			if strings.HasPrefix(text[begin:], `"`) {
				literal, err := strconv.QuotedPrefix(text[begin:])
				if err != nil {
					return nil, &Error{Text: text, Column: w.valueColumn, Width: 1, Message: "the quote is not closed"}
				}
				w.value, _ = strconv.Unquote(literal) // a quoted prefix can be unquoted
				w.quoted = true
				if end = begin + len(literal); end < len(text) && strings.IndexByte(" \t\r\n", text[end]) < 0 {
					return nil, &Error{Text: text, Column: utf8.RuneCountInString(text[:end]), Width: 1, Message: "text follows directly after a quote", Expected: "a space"}
				}
			}
		}
		w.text, w.key = text[at:end], strings.ToLower(w.key)
		w.width = utf8.RuneCountInString(w.text)
		words = append(words, w)
		at = end
	}
	return words, nil
}

// keywords are all words. Short forms are turned into these by expand.
var keywords = map[string]keyword{
	"one-flow":       {"shape", "one-flow", "", func(p *Pattern, _ word) error { p.Shape = OneFlow; return nil }},
	"flows":          {"shape", "flows=1000", "a number of flows, or flows@packets such as 2048@30", setFlows},
	"rdos":           {"shape", "rdos", "nothing, or rdos=5tuple", setRandom},
	"pcap":           {"shape", "pcap=FILE", "the file name of a capture", setCapture},
	"ports":          {"ports", "ports=rfc4814", "rfc4814 or fixed", setPorts},
	"timing":         {"timing", "timing=own", "own (the capture's) or rate", setTiming},
	"syn":            {"protocol", "syn", "", func(p *Pattern, _ word) error { p.SYN = true; return nil }},
	"udp":            {"protocol", "udp", "", func(p *Pattern, _ word) error { p.SYN = false; return nil }},
	"bidirectional":  {"direction", "bidirectional", "", func(p *Pattern, _ word) error { p.Bidirectional = true; return nil }},
	"unidirectional": {"direction", "unidirectional", "", func(p *Pattern, _ word) error { p.Bidirectional = false; return nil }},
	"size":           {"size", "size=64", expectSize, setSizes},
	"family":         {"family", "family=ipv6", "ipv4, ipv6, or both with shares: ipv4:70,ipv6:30", setFamily},
	"table":          {"table", "table=full", "the file name of a routing table, or full", setTable},
	"draw":           {"draw", "draw=uniform", "in-table, per-prefix or uniform", setDraw},
	"seed":           {"seed", "seed=1", "a whole number", setSeed},
}

// expand turns what people also write into words of the grammar.
func expand(w word) word {
	as := func(key, value string) word {
		w.key, w.value, w.valued = key, value, true
		if w.valueColumn == 0 || !strings.HasSuffix(w.text, value) {
			w.valueColumn = w.column
		}
		return w
	}
	switch {
	case w.key == "imix" && !w.valued:
		return as("size", "imix")
	case w.key == "imix":
		return as("size", "imix-"+w.value)
	case w.key == "mix" && w.valued:
		return as("size", w.value)
	case w.key == "genome" && w.valued:
		return as("size", "genome:"+w.value)
	case (w.key == "ipv4" || w.key == "ipv6") && !w.valued:
		return as("family", w.key)
	case w.key == "5tuple" && !w.valued:
		return as("rdos", w.key)
	case !w.valued && strings.Contains(w.key, "@"): // 2048@30, as the papers write it
		return as("flows", w.key)
	}
	return w
}

// take adds one word to the pattern.
func (p *parser) take(w word) error {
	w = expand(w)
	k, known := keywords[w.key]
	switch {
	case !known:
		return p.unknown(w)
	case !w.valued && k.expected != "" && w.key != "rdos":
		return p.at(w, fmt.Sprintf("%q has no value", w.text), k.expected)
	case w.valued && k.expected == "":
		return p.at(w, fmt.Sprintf("%q takes no value", w.key), fmt.Sprintf("%q alone", w.key))
	}
	if before, twice := p.said[k.about]; twice {
		if before.key == w.key {
			return p.at(w, fmt.Sprintf("%s is given twice", w.key), "each option once")
		}
		return p.at(w, fmt.Sprintf("%q and %q can't go together", before.text, w.text), "one of them")
	}
	p.said[k.about] = w
	err := k.set(&p.pattern, w)
	var f *fault
	if errors.As(err, &f) {
		return p.fault(w, k, f)
	}
	return err
}

func (p *parser) unknown(w word) error {
	examples := []string{"imix", "ipv4", "ipv6"}
	names := slices.Sorted(maps.Keys(keywords))
	for _, n := range names {
		examples = append(examples, keywords[n].example)
	}
	nearest := config.Nearest(w.key, names)
	if nearest != "" && w.valued && keywords[nearest].expected != "" {
		nearest += "=" + w.value
	} else if nearest != "" {
		nearest = keywords[nearest].example
	}
	return &Error{Text: p.text, Column: w.column, Width: w.width, Nearest: nearest,
		Message: fmt.Sprintf("unknown option %q", w.text), Expected: strings.Join(examples, ", ")}
}

// at returns an error about a whole word.
func (p *parser) at(w word, message, expected string) error {
	return &Error{Text: p.text, Column: w.column, Width: w.width, Message: message, Expected: expected}
}

// fault turns a problem of a value into an error that points into the text.
func (p *parser) fault(w word, k keyword, f *fault) error {
	e := &Error{Text: p.text, Column: w.column, Width: w.width, Message: f.message, Expected: f.expected, Nearest: f.nearest}
	e.Expected = cmp.Or(e.Expected, k.expected)
	if f.width > 0 && !w.quoted && strings.HasSuffix(w.text, w.value) && f.at+f.width <= len(w.value) {
		e.Column = w.valueColumn + utf8.RuneCountInString(w.value[:f.at])
		e.Width = utf8.RuneCountInString(w.value[f.at : f.at+f.width])
	}
	if f.candidate != "" && e.Nearest == "" {
		e.Nearest = config.Nearest(f.candidate, append(slices.Sorted(maps.Keys(mixes)), "csit"))
	}
	return e
}

// settle checks what words together mean, and fills in what follows from them.
func (p *parser) settle() error {
	if p.pattern.Shape == Replay {
		for _, about := range []string{"ports", "protocol", "direction", "size", "family", "table", "draw", "seed"} {
			if w, said := p.said[about]; said {
				return p.at(w, fmt.Sprintf("%q has no meaning for a capture, whose frames are sent as they are", w.text), "pcap=FILE, and timing=own or timing=rate")
			}
		}
		return nil
	}
	if w, said := p.said["timing"]; said {
		return p.at(w, "timing is of captures", "pcap=FILE as well")
	}
	if w, said := p.said["ports"]; said && p.pattern.RFC4814 {
		if shape, said := p.said["shape"]; said && p.pattern.Shape == OneFlow {
			return p.at(w, fmt.Sprintf("with random ports in every packet there is more than %s", shape.text), "ports=rfc4814 alone, or with flows=N or rdos")
		} else if !said {
			p.pattern.Shape = RandomPorts
		} else if p.pattern.Shape == RandomTuple {
			p.pattern.RFC4814 = false // it has them anyway
		}
	}
	if p.pattern.Table != "" && p.pattern.Draw == FromNetworks {
		p.pattern.Draw = InTable
	}
	if w, said := p.said["draw"]; said && p.pattern.Table == "" && p.pattern.Draw != Uniform {
		return p.at(w, "there is no table to draw from", "table=FILE or table=full as well")
	}
	return p.settleLap()
}

// settleLap refuses patterns whose period is longer than a lap can be.
func (p *parser) settleLap() error {
	if _, err := p.pattern.length(); err != nil {
		w, said := p.said["size"]
		if shape, ok := p.said["shape"]; ok && p.pattern.Shape == Flows && p.pattern.flowPeriod() > p.pattern.most() {
			w, said = shape, true
		}
		if !said {
			w = word{width: utf8.RuneCountInString(p.text)}
		}
		var f *fault
		if errors.As(err, &f) {
			return p.at(w, f.message, f.expected)
		}
		return err
	}
	return nil
}

func setFlows(p *Pattern, w word) error {
	count, packets, limited := strings.Cut(w.value, "@")
	n, ok := number(count, MaxPackets)
	if !ok || n == 0 {
		return &fault{at: 0, width: len(count), message: fmt.Sprintf("%q is no number of flows", count), expected: fmt.Sprintf("1 to %d, as in flows=1000 or flows=2048@30", MaxPackets)}
	}
	if limited {
		if p.FlowPackets, ok = number(packets, MaxPackets); !ok || p.FlowPackets == 0 {
			return &fault{at: len(count) + 1, width: len(packets), message: fmt.Sprintf("%q is no number of packets of a flow", packets), expected: fmt.Sprintf("1 to %d, as in flows=2048@30", MaxPackets)}
		}
	}
	p.Shape, p.Flows = Flows, n
	if n == 1 && !limited {
		p.Shape, p.Flows = OneFlow, 0
	}
	return nil
}

func setRandom(p *Pattern, w word) error {
	switch {
	case !w.valued || w.value == "address":
		p.Shape = RandomTo
	case w.value == "5tuple":
		p.Shape = RandomTuple
	default:
		return choice(w.value, "address", "5tuple")
	}
	return nil
}

func setPorts(p *Pattern, w word) error {
	switch w.value {
	case "rfc4814":
		p.RFC4814 = true
	case "fixed":
	default:
		return choice(w.value, "rfc4814", "fixed")
	}
	return nil
}

func setTiming(p *Pattern, w word) error {
	switch w.value {
	case "own":
		p.OwnTiming = true
	case "rate":
	default:
		return choice(w.value, "own", "rate")
	}
	return nil
}

func setDraw(p *Pattern, w word) error {
	switch w.value {
	case "in-table":
		p.Draw = InTable
	case "per-prefix":
		p.Draw = PerPrefix
	case "uniform":
		p.Draw = Uniform
	default:
		return choice(w.value, "in-table", "per-prefix", "uniform")
	}
	return nil
}

func setCapture(p *Pattern, w word) error {
	p.Shape, p.Capture = Replay, w.value
	return named(w)
}

func setTable(p *Pattern, w word) error {
	p.Table = w.value
	return named(w)
}

func named(w word) error {
	if w.value == "" {
		return &fault{message: fmt.Sprintf("%q names no file", w.text)}
	}
	return nil
}

func setSeed(p *Pattern, w word) error {
	n, err := strconv.ParseUint(w.value, 10, 64)
	if err != nil {
		return &fault{message: fmt.Sprintf("%q is no seed", w.value), expected: fmt.Sprintf("a whole number up to %d", uint64(math.MaxUint64))}
	}
	p.Seed = n
	return nil
}

func setSizes(p *Pattern, w word) (err error) {
	p.Sizes, err = parseSizes(w.value)
	return err
}

func setFamily(p *Pattern, w word) error {
	p.Family = Family{}
	switch w.value {
	case "ipv4":
		p.Family.IPv4 = 1
		return nil
	case "ipv6":
		p.Family.IPv6 = 1
		return nil
	case "both":
		p.Family = Family{1, 1}
		return nil
	}
	at := 0
	for part := range strings.SplitSeq(w.value, ",") {
		name, share, weighted := strings.Cut(part, ":")
		to := map[string]*int{"ipv4": &p.Family.IPv4, "ipv6": &p.Family.IPv6}[name]
		n, ok := number(share, 1000)
		switch {
		case to == nil:
			return &fault{at: at, width: len(part), message: fmt.Sprintf("%q is no IP version", name), nearest: config.Nearest(name, []string{"ipv4", "ipv6", "both"})}
		case !weighted || *to != 0 || !ok || n == 0:
			return &fault{at: at, width: len(part), message: fmt.Sprintf("%q lacks the share of %s", part, name), expected: "each version once with a share from 1 to 1000: ipv4:70,ipv6:30"}
		}
		*to = n
		at += len(part) + 1
	}
	if common := gcd(p.Family.IPv4, p.Family.IPv6); common > 1 {
		p.Family = Family{p.Family.IPv4 / common, p.Family.IPv6 / common}
	}
	return nil
}

// choice is the error of a value that is none of a few words.
func choice(value string, words ...string) error {
	return &fault{message: fmt.Sprintf("%q is not known here", value), nearest: config.Nearest(value, words), expected: strings.Join(words, " or ")}
}
