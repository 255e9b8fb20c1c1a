// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/base/ipnet"
	"minne/internal/base/nlmsg"
)

// Image is what a table is made of: each of its objects, and a print of what the kernel says of it.
// Two images are the same when nobody has changed the table. What changes by itself is not in it:
// counters, elements that packets put into sets, and elements of sets with a timeout, which are
// asked for with Spans.
type Image map[string]string

// imageOf is the image of a table itself.
func imageOf(comment string, flags uint32) string { return fmt.Sprint(comment, " flags ", flags) }

// Owned says whether nobody but the table's owner could change it when it was read.
func (i Image) Owned() bool { return strings.HasSuffix(i["table"], imageOf("", ownerFlags)) }

// Digest is a print of the whole image.
func (i Image) Digest() string {
	h := sha256.New()
	for _, object := range slices.Sorted(maps.Keys(i)) {
		fmt.Fprintf(h, "%q %q\n", object, i[object])
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// Differences says in what is differs from i, in words.
func (i Image) Differences(is Image) (list []string) {
	// part says whether an object is told with another: an anonymous set with its rule, rules and
	// elements with a chain or set that is not in the other image.
	part := func(object string, other Image) bool {
		for _, of := range []string{"rules of ", "elements of "} {
			if whole, ok := strings.CutPrefix(object, of); ok {
				_, there := other[whole]
				return !there || strings.Contains(object, anonymous)
			}
		}
		return strings.Contains(object, anonymous)
	}
	for _, object := range slices.Sorted(maps.Keys(i)) {
		switch now, there := is[object]; {
		case there && now != i[object]:
			list = append(list, object+" changed")
		case !there && !part(object, is):
			list = append(list, object+" gone")
		}
	}
	for _, object := range slices.Sorted(maps.Keys(is)) {
		if _, had := i[object]; !had && !part(object, i) {
			list = append(list, object+" new")
		}
	}
	if len(list) == 0 && i.Digest() != is.Digest() {
		list = append(list, "its rules changed")
	}
	return list
}

// anonymous begins the name of a set that is part of a rule.
const anonymous = "__"

// Flags of sets (linux/netfilter/nf_tables.h).
const (
	setTimeout = 0x10
	setDynamic = 0x20
)

// ReadImage reads the image of a table of family inet; nil when there is none.
func ReadImage(table string) (image Image, err error) {
	for range triesToList {
		if image, err = readImage(table); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read table %s: %w", table, err)
	}
	return image, nil
}

func readImage(table string) (Image, error) {
	d, err := describe(table)
	if err != nil || !d.there {
		return nil, err
	}
	t, err := dial()
	if err != nil {
		return nil, err
	}
	defer t.close()
	image := Image{"table": imageOf(d.comment, d.flags)}
	err = t.list(unix.NFT_MSG_GETCHAIN, table, "", func(chain []byte) {
		name := ""
		p := newPrint()
		for kind, value := range nlmsg.Attributes(chain) {
			switch kind {
			case unix.NFTA_CHAIN_NAME:
				name = unix.ByteSliceToString(value)
			case unix.NFTA_CHAIN_HOOK, unix.NFTA_CHAIN_POLICY, unix.NFTA_CHAIN_TYPE:
				p.add(kind, value)
			}
		}
		image["chain "+name] = p.sum()
	})
	if err != nil {
		return nil, err
	}
	rules := map[string]*print{}
	err = t.list(unix.NFT_MSG_GETRULE, table, "", func(rule []byte) {
		p := newPrint()
		chain := ""
		for kind, value := range nlmsg.Attributes(rule) {
			switch kind {
			case unix.NFTA_RULE_CHAIN:
				chain = unix.ByteSliceToString(value)
			case unix.NFTA_RULE_USERDATA:
				p.add(kind, value)
			case unix.NFTA_RULE_EXPRESSIONS:
				for _, expression := range nlmsg.Attributes(value) {
					p.add(kind, withoutCounts(expression))
				}
			}
		}
		if rules[chain] == nil {
			rules[chain] = newPrint()
		}
		rules[chain].add(0, []byte(p.sum()))
	})
	if err != nil {
		return nil, err
	}
	for chain, p := range rules {
		image["rules of chain "+chain] = p.sum()
	}
	err = t.list(unix.NFT_MSG_GETOBJ, table, "", func(object []byte) {
		name := ""
		p := newPrint()
		for kind, value := range nlmsg.Attributes(object) {
			switch kind {
			case unix.NFTA_OBJ_NAME:
				name = unix.ByteSliceToString(value)
			case unix.NFTA_OBJ_TYPE, unix.NFTA_OBJ_DATA:
				p.add(kind, value)
			}
		}
		image["object "+name] = p.sum()
	})
	if err != nil {
		return nil, err
	}
	return image, t.sets(table, image)
}

// sets adds the sets of a table to its image, with the elements of those that keep them.
func (t talk) sets(table string, image Image) error {
	var fixed []string
	err := t.list(unix.NFT_MSG_GETSET, table, "", func(set []byte) {
		name, flags := setHead(set)
		p := newPrint()
		for kind, value := range nlmsg.Attributes(set) {
			switch kind {
			case unix.NFTA_SET_FLAGS, unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN, unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN, unix.NFTA_SET_DESC, unix.NFTA_SET_TIMEOUT:
				p.add(kind, value)
			}
		}
		image["set "+name] = p.sum()
		if flags&(setTimeout|setDynamic) == 0 {
			fixed = append(fixed, name)
		}
	})
	for _, set := range fixed {
		if err != nil {
			return err
		}
		var elements [][]byte
		elements, err = t.elements(table, set)
		slices.SortFunc(elements, bytes.Compare)
		p := newPrint()
		for _, e := range elements {
			p.add(0, e)
		}
		image["elements of set "+set] = p.sum()
	}
	return err
}

// list calls do with each object of a kind that a table has. set is for its elements.
func (t talk) list(kind uint16, table, set string, do func(object []byte)) error {
	ask := newMessage(kindOf(kind), unix.NLM_F_REQUEST|unix.NLM_F_DUMP, unix.NFPROTO_INET).text(unix.NFTA_TABLE_NAME, table)
	if set != "" {
		ask = ask.text(unix.NFTA_SET_ELEM_LIST_SET, set)
	}
	if err := t.send(ask.end()); err != nil {
		return err
	}
	return t.answers(func(_ uint16, body []byte) {
		of := ""
		for kind, value := range nlmsg.Attributes(body) { // the first of all objects names the table
			if kind == unix.NFTA_TABLE_NAME {
				of = unix.ByteSliceToString(value)
			}
		}
		if of == table {
			do(body)
		}
	})
}

// withoutCounts is an expression without what packets change in it.
func withoutCounts(expression []byte) []byte {
	counter := false
	for kind, value := range nlmsg.Attributes(expression) {
		counter = counter || kind == unix.NFTA_EXPR_NAME && string(value) == "counter\x00"
	}
	if counter {
		return []byte("counter")
	}
	return expression
}

// print is a sum of parts.
type print struct{ b bytes.Buffer }

func newPrint() *print { return &print{} }

func (p *print) add(kind uint16, value []byte) {
	_ = binary.Write(&p.b, binary.BigEndian, []uint16{kind, uint16(len(value))})
	p.b.Write(value)
}

func (p *print) sum() string {
	h := sha256.New()
	_, _ = io.Copy(h, &p.b)
	return string(h.Sum(nil))
}

// Span is a range of addresses of one family.
type Span struct{ First, Last netip.Addr }

// Spans reads which addresses are in a set of addresses or networks of a table of family inet, in
// order. Spans that touch are one.
func Spans(table, set string, interval bool) (spans []Span, err error) {
	for range triesToList {
		if spans, err = readSpans(table, set, interval); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read set %s of table %s: %w", set, table, err)
	}
	return spans, nil
}

// Keys reads the keys of a set's elements, as the kernel has them.
func Keys(table, set string) (keys [][]byte, err error) {
	var elements [][]byte
	for range triesToList {
		var t talk
		if t, err = dial(); err != nil {
			break
		}
		elements, err = t.elements(table, set)
		t.close()
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read set %s of table %s: %w", set, table, err)
	}
	for _, e := range elements {
		key, _ := keyOf(e)
		keys = append(keys, key)
	}
	return keys, nil
}

// bound is where a span begins, or the first address behind one.
type bound struct {
	a   netip.Addr
	end bool
}

func readSpans(table, set string, interval bool) ([]Span, error) {
	t, err := dial()
	if err != nil {
		return nil, err
	}
	defer t.close()
	elements, err := t.elements(table, set)
	if err != nil {
		return nil, err
	}
	var bounds []bound
	for _, e := range elements {
		key, end := keyOf(e)
		a, _ := netip.AddrFromSlice(key)
		bounds = append(bounds, bound{a, end})
	}
	var spans []Span
	if !interval {
		for _, b := range bounds {
			spans = append(spans, Span{b.a, b.a})
		}
		return Merge(spans), nil
	}
	slices.SortFunc(bounds, func(a, b bound) int {
		switch by := a.a.Compare(b.a); {
		case by != 0 || a.end == b.end:
			return by
		case a.end:
			return -1
		}
		return 1
	})
	for i, b := range bounds {
		if b.end {
			continue
		}
		last := ipnet.Last(netip.PrefixFrom(b.a, 0))
		if i+1 < len(bounds) {
			last = bounds[i+1].a.Prev()
		}
		spans = append(spans, Span{b.a, last})
	}
	return Merge(spans), nil
}

// Merge sorts spans and makes one of those that overlap or touch.
func Merge(spans []Span) (merged []Span) {
	slices.SortFunc(spans, func(a, b Span) int { return a.First.Compare(b.First) })
	for _, s := range spans {
		if n := len(merged); n > 0 && merged[n-1].First.BitLen() == s.First.BitLen() {
			if o := &merged[n-1]; !o.Last.Less(s.First) || o.Last.Next() == s.First {
				if o.Last.Less(s.Last) {
					o.Last = s.Last
				}
				continue
			}
		}
		merged = append(merged, s)
	}
	return merged
}

// SpanOf is a prefix as a span.
func SpanOf(p netip.Prefix) Span { return Span{p.Masked().Addr(), ipnet.Last(p)} }

// Cover says whether all of inner is in outer, both merged.
func Cover(outer, inner []Span) bool {
	for _, s := range inner {
		i, exact := slices.BinarySearchFunc(outer, s, func(a, b Span) int { return a.First.Compare(b.First) })
		if !exact {
			i--
		}
		if i < 0 || outer[i].Last.Less(s.Last) {
			return false
		}
	}
	return true
}
