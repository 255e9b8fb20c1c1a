// SPDX-License-Identifier: Apache-2.0

package flowlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"minne/internal/model/flowrecord"
)

// The columns of a block. Numbers are varints (encoding/binary) unless said otherwise; ports are the low bytes of
// all rows and then the high ones. A list of addresses is sorted, and rows have its index.
const (
	colTo         = iota // zigzag: since the row before
	colLasted            // From to To
	colSince             // Began to From, plus one; 0: not known
	colProtocol          // bytes
	colFlags             // bytes: reason, and answered
	colTable             //
	colIn                // index into colWays
	colOut               //
	colWays              // interfaces with their zones
	colSources           // addresses
	colSource            //
	colSourcePort        //
	colCalleds
	colCalled
	colCalledPort
	colSeens
	colSeen     // plus one; 0: not translated
	colSeenPort // XOR colSourcePort
	colDestinations
	colDestination     // plus one; 0: not translated
	colDestinationPort // XOR colCalledPort
	colPackets0
	colPackets1
	colBytes0
	colBytes1
	colSoFar // of rows that last: for each way packets, bytes, and those of the fast path
	columns
)

const (
	magic      = "MNFL"
	version    = 1
	headerSize = 80

	flagAnswered = 1 << 7

	// mostBody bounds what a header may claim: no block of mostRecords is as large.
	mostBody    = 64 << 20
	mostRecords = 1 << 16
)

// header is what stands in front of a block.
//
//	0 magic, 4 version, 6 compressed, 8 first, 16 count, 20 body, 24 filter,
//	28 checksum of the body, 32 from, 40 to, 48 lasting, 76 checksum of the header
type header struct {
	first      uint64 // number of the first record
	count      uint32
	body       uint32 // bytes behind the header
	filter     uint32 // of them, those of the filter, in front
	sum        uint32 // CRC-32C of the body
	from, to   int64  // the earliest From and the latest To of the records
	lasting    uint32 // records of connections that went on
	compressed bool
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errDamaged = errors.New("damaged block")

func (h *header) put(b []byte) {
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint16(b[4:], version)
	if h.compressed {
		b[6] = 1
	}
	le.PutUint64(b[8:], h.first)
	le.PutUint32(b[16:], h.count)
	le.PutUint32(b[20:], h.body)
	le.PutUint32(b[24:], h.filter)
	le.PutUint32(b[28:], h.sum)
	le.PutUint64(b[32:], uint64(h.from))
	le.PutUint64(b[40:], uint64(h.to))
	le.PutUint32(b[48:], h.lasting)
	le.PutUint32(b[headerSize-4:], crc32.Checksum(b[:headerSize-4], castagnoli))
}

func readHeader(b []byte) (h header, err error) {
	le := binary.LittleEndian
	if len(b) < headerSize || string(b[:4]) != magic || le.Uint16(b[4:]) != version ||
		le.Uint32(b[headerSize-4:]) != crc32.Checksum(b[:headerSize-4], castagnoli) {
		return h, errDamaged
	}
	h = header{first: le.Uint64(b[8:]), count: le.Uint32(b[16:]), body: le.Uint32(b[20:]), filter: le.Uint32(b[24:]), sum: le.Uint32(b[28:]),
		from: int64(le.Uint64(b[32:])), to: int64(le.Uint64(b[40:])), lasting: le.Uint32(b[48:]), compressed: b[6] == 1}
	if h.count == 0 || h.count > mostRecords || h.body > mostBody || h.filter+columns*4 > h.body || h.filter%lineBytes != 0 {
		return h, errDamaged
	}
	return h, nil
}

// One of each is enough: they are safe for all goroutines.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(mostBody))
		return d
	})
)

// encode makes a block of records. One that is not compressed has no filter.
func encode(records []flowrecord.Record, first uint64, compress bool) []byte {
	cols, filter := split(records, compress)
	h := header{first: first, count: uint32(len(records)), compressed: compress, from: math.MaxInt64, to: math.MinInt64}
	for i := range records {
		r := &records[i]
		h.from, h.to = min(h.from, r.From.UnixMilli()), max(h.to, r.To.UnixMilli())
		if r.Reason == flowrecord.Lasts {
			h.lasting++
		}
	}
	out := append(make([]byte, headerSize), filter...)
	table := len(out)
	out = append(out, make([]byte, columns*4)...)
	for i, c := range cols {
		before := len(out)
		if compress {
			out = packer().EncodeAll(c, out)
		} else {
			out = append(out, c...)
		}
		binary.LittleEndian.PutUint32(out[table+4*i:], uint32(len(out)-before))
	}
	h.filter, h.body = uint32(len(filter)), uint32(len(out)-headerSize)
	h.sum = crc32.Checksum(out[headerSize:], castagnoli)
	h.put(out)
	return out
}

// list is the different addresses of a column, sorted.
type list []netip.Addr

func listOf(records []flowrecord.Record, of func(*flowrecord.Record) (netip.Addr, bool)) list {
	seen := make(map[netip.Addr]bool, 1024)
	var l list
	for i := range records {
		if a, ok := of(&records[i]); ok && !seen[a] {
			seen[a] = true
			l = append(l, a)
		}
	}
	slices.SortFunc(l, netip.Addr.Compare)
	return l
}

func (l list) indices() map[netip.Addr]uint64 {
	m := make(map[netip.Addr]uint64, len(l))
	for i, a := range l {
		m[a] = uint64(i)
	}
	return m
}

// encode writes IPv4 addresses as differences, and of IPv6 addresses what differs from the one before.
func (l list) encode() []byte {
	four := 0
	for four < len(l) && l[four].Is4() {
		four++
	}
	b := binary.AppendUvarint(nil, uint64(four))
	b = binary.AppendUvarint(b, uint64(len(l)-four))
	last := uint32(0)
	for _, a := range l[:four] {
		four := a.As4()
		v := binary.BigEndian.Uint32(four[:])
		b, last = binary.AppendUvarint(b, uint64(v-last)), v
	}
	var before [16]byte
	for _, a := range l[four:] {
		v, same := a.As16(), 0
		for same < 15 && v[same] == before[same] {
			same++
		}
		b, before = append(append(b, byte(same)), v[same:]...), v
	}
	return b
}

func decodeList(b []byte) (list, error) {
	four, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errDamaged
	}
	six, m := binary.Uvarint(b[n:])
	if m <= 0 || four+six > mostRecords {
		return nil, errDamaged
	}
	b = b[n+m:]
	l, last := make(list, 0, four+six), uint32(0)
	for range four {
		d, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errDamaged
		}
		b, last = b[n:], last+uint32(d)
		l = append(l, netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, last))))
	}
	var v [16]byte
	for range six {
		if len(b) == 0 || b[0] > 15 || len(b) < 17-int(b[0]) {
			return nil, errDamaged
		}
		same := int(b[0])
		copy(v[same:], b[1:])
		b = b[17-same:]
		l = append(l, netip.AddrFrom16(v))
	}
	return l, nil
}

// split makes columns of records, and the filter if it is wanted.
func split(records []flowrecord.Record, filtered bool) (cols [columns][]byte, filter []byte) {
	sources := listOf(records, func(r *flowrecord.Record) (netip.Addr, bool) { return r.Source.Addr(), true })
	calleds := listOf(records, func(r *flowrecord.Record) (netip.Addr, bool) { return r.Called.Addr(), true })
	seens := listOf(records, func(r *flowrecord.Record) (netip.Addr, bool) { return r.Seen.Addr(), r.Seen != r.Source })
	destinations := listOf(records, func(r *flowrecord.Record) (netip.Addr, bool) { return r.Destination.Addr(), r.Destination != r.Called })
	source, called, seen, destination := sources.indices(), calleds.indices(), seens.indices(), destinations.indices()
	n := len(records)
	for _, c := range []int{colSourcePort, colCalledPort, colSeenPort, colDestinationPort} {
		cols[c] = make([]byte, 2*n)
	}
	port := func(col, i int, p uint16) { cols[col][i], cols[col][n+i] = byte(p), byte(p>>8) }
	add := func(col int, v uint64) { cols[col] = binary.AppendUvarint(cols[col], v) }
	ways, wayIndex := []byte{}, map[flowrecord.Way]uint64{}
	way := func(col int, w flowrecord.Way) {
		i, ok := wayIndex[w]
		if !ok {
			i = uint64(len(wayIndex))
			wayIndex[w] = i
			ways = binary.AppendUvarint(appendText(appendText(ways, w.Interface), w.Zone), uint64(w.Index))
		}
		add(col, i)
	}
	last := int64(0)
	for i := range records {
		r := &records[i]
		from, to := r.From.UnixMilli(), r.To.UnixMilli()
		cols[colTo] = binary.AppendVarint(cols[colTo], to-last)
		last = to
		add(colLasted, uint64(max(to-from, 0)))
		if r.Began.IsZero() {
			add(colSince, 0)
		} else {
			add(colSince, uint64(max(from-r.Began.UnixMilli(), 0))+1)
		}
		flags := byte(r.Reason)
		if r.Answered {
			flags |= flagAnswered
		}
		cols[colProtocol], cols[colFlags] = append(cols[colProtocol], r.Protocol), append(cols[colFlags], flags)
		add(colTable, uint64(r.Table))
		way(colIn, r.In)
		way(colOut, r.Out)
		add(colSource, source[r.Source.Addr()])
		port(colSourcePort, i, r.Source.Port())
		add(colCalled, called[r.Called.Addr()])
		port(colCalledPort, i, r.Called.Port())
		if r.Seen != r.Source {
			add(colSeen, seen[r.Seen.Addr()]+1)
		} else {
			add(colSeen, 0)
		}
		port(colSeenPort, i, r.Seen.Port()^r.Source.Port())
		if r.Destination != r.Called {
			add(colDestination, destination[r.Destination.Addr()]+1)
		} else {
			add(colDestination, 0)
		}
		port(colDestinationPort, i, r.Destination.Port()^r.Called.Port())
		add(colPackets0, r.Packets[0])
		add(colPackets1, r.Packets[1])
		add(colBytes0, r.Bytes[0])
		add(colBytes1, r.Bytes[1])
		if r.Reason == flowrecord.Lasts {
			s := &r.SoFar
			for d := range 2 {
				add(colSoFar, s.Packets[d])
				add(colSoFar, s.Bytes[d])
				add(colSoFar, s.FastPackets[d])
				add(colSoFar, s.FastBytes[d])
			}
		}
	}
	cols[colWays] = ways
	cols[colSources], cols[colCalleds], cols[colSeens], cols[colDestinations] = sources.encode(), calleds.encode(), seens.encode(), destinations.encode()
	if filtered {
		filter = filterOf(records, sources, calleds, seens, destinations)
	}
	return cols, filter
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// block is a block that is being read: a column is unpacked when it is asked for.
type block struct {
	header
	packed [columns][]byte
	failed error
}

// openBlock reads what stands behind a header.
func openBlock(h header, body []byte) (*block, error) {
	if len(body) != int(h.body) || crc32.Checksum(body, castagnoli) != h.sum {
		return nil, errDamaged
	}
	b := &block{header: h}
	table, rest := body[h.filter:h.filter+columns*4], body[h.filter+columns*4:]
	for i := range b.packed {
		n := binary.LittleEndian.Uint32(table[4*i:])
		if int(n) > len(rest) {
			return nil, errDamaged
		}
		b.packed[i], rest = rest[:n], rest[n:]
	}
	return b, nil
}

func (b *block) fail(err error) {
	if b.failed == nil {
		b.failed = err
	}
}

func (b *block) column(i int) []byte {
	if !b.compressed {
		return b.packed[i]
	}
	raw, err := unpacker().DecodeAll(b.packed[i], nil)
	if err != nil {
		b.fail(fmt.Errorf("%w: %w", errDamaged, err))
	}
	return raw
}

// bytes is a column of so many bytes for each row.
func (b *block) bytes(i, each int) []byte {
	c := b.column(i)
	if len(c) != each*int(b.count) {
		b.fail(errDamaged)
		return make([]byte, each*int(b.count))
	}
	return c
}

// numbers is a column of varints. All of them are below limit.
func (b *block) numbers(i int, limit uint64) []uint64 {
	c, list := b.column(i), make([]uint64, b.count)
	for j := range list {
		v, n := binary.Uvarint(c)
		if n <= 0 || v >= limit {
			b.fail(errDamaged)
			return make([]uint64, b.count)
		}
		list[j], c = v, c[n:]
	}
	return list
}

func (b *block) ports(i int) []uint16 {
	c, n := b.bytes(i, 2), int(b.count)
	list := make([]uint16, n)
	for j := range list {
		list[j] = uint16(c[j]) | uint16(c[n+j])<<8
	}
	return list
}

func (b *block) list(i int) list {
	l, err := decodeList(b.column(i))
	if err != nil {
		b.fail(err)
	}
	return l
}

func (b *block) ways() []flowrecord.Way {
	c, all := b.column(colWays), []flowrecord.Way{}
	text := func() string {
		n, m := binary.Uvarint(c)
		if m <= 0 || n > uint64(len(c)-m) {
			b.fail(errDamaged)
			c = nil
			return ""
		}
		s := string(c[m : m+int(n)])
		c = c[m+int(n):]
		return s
	}
	for len(c) > 0 && b.failed == nil {
		w := flowrecord.Way{Interface: text(), Zone: text()}
		n, m := binary.Uvarint(c)
		if m <= 0 {
			b.fail(errDamaged)
			break
		}
		w.Index, c = uint32(n), c[m:]
		all = append(all, w)
	}
	return all
}

// keys are the columns that questions ask about, of all rows.
type keys struct {
	to, lasted                               []int64
	protocol                                 []byte
	source, called, seen, destination        []uint64
	sourcePort, calledPort                   []uint16
	seenPort, destinationPort                []uint16 // as they are, not XOR
	sources, calleds, seens, destinationList list
}

func (b *block) keys() (k keys, err error) {
	k.sources, k.calleds, k.seens, k.destinationList = b.list(colSources), b.list(colCalleds), b.list(colSeens), b.list(colDestinations)
	k.source = b.numbers(colSource, uint64(max(len(k.sources), 1)))
	k.called = b.numbers(colCalled, uint64(max(len(k.calleds), 1)))
	k.seen = b.numbers(colSeen, uint64(len(k.seens))+1)
	k.destination = b.numbers(colDestination, uint64(len(k.destinationList))+1)
	k.protocol = b.bytes(colProtocol, 1)
	k.sourcePort, k.calledPort = b.ports(colSourcePort), b.ports(colCalledPort)
	k.seenPort, k.destinationPort = b.ports(colSeenPort), b.ports(colDestinationPort)
	for i := range k.seenPort {
		k.seenPort[i] ^= k.sourcePort[i]
		k.destinationPort[i] ^= k.calledPort[i]
	}
	c, last := b.column(colTo), int64(0)
	k.to, k.lasted = make([]int64, b.count), make([]int64, b.count)
	for i, v := range b.numbers(colLasted, math.MaxInt64) {
		d, n := binary.Varint(c)
		if n <= 0 {
			b.fail(errDamaged)
			break
		}
		last += d
		k.to[i], k.lasted[i], c = last, int64(v), c[n:]
	}
	if b.failed == nil && (len(k.sources) == 0 || len(k.calleds) == 0) {
		b.fail(errDamaged)
	}
	return k, b.failed
}

// rows makes records of some rows of a block.
func (b *block) rows(k *keys, which []int) ([]flowrecord.Record, error) {
	ways := b.ways()
	since, table, flags := b.numbers(colSince, math.MaxUint64), b.numbers(colTable, 1<<16), b.bytes(colFlags, 1)
	in, out := b.numbers(colIn, uint64(len(ways))), b.numbers(colOut, uint64(len(ways)))
	p0, p1 := b.numbers(colPackets0, math.MaxUint64), b.numbers(colPackets1, math.MaxUint64)
	b0, b1 := b.numbers(colBytes0, math.MaxUint64), b.numbers(colBytes1, math.MaxUint64)
	if b.failed != nil {
		return nil, b.failed
	}
	soFar := b.soFar(flags)
	if b.failed != nil {
		return nil, b.failed
	}
	list := make([]flowrecord.Record, len(which))
	for j, i := range which {
		from := k.to[i] - k.lasted[i]
		r := flowrecord.Record{From: time.UnixMilli(from), To: time.UnixMilli(k.to[i]), Protocol: k.protocol[i],
			Reason: flowrecord.Reason(flags[i] &^ flagAnswered), Answered: flags[i]&flagAnswered != 0, Table: uint16(table[i]),
			Source: netip.AddrPortFrom(k.sources[k.source[i]], k.sourcePort[i]), Called: netip.AddrPortFrom(k.calleds[k.called[i]], k.calledPort[i]),
			Packets: [2]uint64{p0[i], p1[i]}, Bytes: [2]uint64{b0[i], b1[i]}, In: ways[in[i]], Out: ways[out[i]]}
		if since[i] > 0 {
			r.Began = time.UnixMilli(from - int64(since[i]-1))
		}
		if r.Seen = r.Source; k.seen[i] > 0 {
			r.Seen = netip.AddrPortFrom(k.seens[k.seen[i]-1], k.seenPort[i])
		}
		if r.Destination = r.Called; k.destination[i] > 0 {
			r.Destination = netip.AddrPortFrom(k.destinationList[k.destination[i]-1], k.destinationPort[i])
		}
		r.SoFar = soFar[i]
		list[j] = r
	}
	return list, nil
}

// soFar is what connections that last have transferred, by row.
func (b *block) soFar(flags []byte) map[int]flowrecord.SoFar {
	if b.lasting == 0 {
		return nil
	}
	c, all := b.column(colSoFar), map[int]flowrecord.SoFar{}
	next := func() uint64 {
		v, n := binary.Uvarint(c)
		if n <= 0 {
			b.fail(errDamaged)
			return 0
		}
		c = c[n:]
		return v
	}
	for i, f := range flags {
		if flowrecord.Reason(f&^flagAnswered) != flowrecord.Lasts {
			continue
		}
		var s flowrecord.SoFar
		for d := range 2 {
			s.Packets[d], s.Bytes[d], s.FastPackets[d], s.FastBytes[d] = next(), next(), next(), next()
		}
		if all[i] = s; b.failed != nil {
			return nil
		}
	}
	return all
}

// all makes records of all rows.
func (b *block) all() ([]flowrecord.Record, error) {
	k, err := b.keys()
	if err != nil {
		return nil, err
	}
	which := make([]int, b.count)
	for i := range which {
		which[i] = i
	}
	return b.rows(&k, which)
}
