// SPDX-License-Identifier: Apache-2.0

package flowlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"minne/internal/model/flowrecord"
)

const (
	// blockRecords is how many records a block has.
	blockRecords = 1 << 15
	// mostSegment and leastSegment bound a segment in bytes: a sixteenth of the log within.
	mostSegment, leastSegment = 64 << 20, 256 << 10

	segmentEnd = ".flows"
	tailName   = "tail"
)

// Limits are what the log may take.
type Limits struct {
	Bytes int64         // on the disk, all files together
	Age   time.Duration // of the newest record of a segment
}

// Store is a log in a directory. It is safe for concurrent use. Append is for one goroutine.
type Store struct {
	dir    string
	limits Limits

	mu       sync.Mutex
	segments []*segment // the oldest first
	tail     []flowrecord.Record
	first    uint64 // number of the first record of the tail
	file     *os.File
	tailSize int64
	stats    Stats
}

// Stats are what a log holds, and what it lost.
type Stats struct {
	Records  uint64     `json:"records"`
	Bytes    int64      `json:"bytes"` // on the disk
	Segments int        `json:"segments"`
	Blocks   int        `json:"blocks"`
	Tail     int        `json:"tail"` // records that are in no block yet
	Oldest   *time.Time `json:"oldest,omitempty"`
	Removed  uint64     `json:"removed"` // records that had to go since the daemon's start: the log's size or age
	Damaged  uint64     `json:"damaged"` // blocks that could not be read
	Torn     int        `json:"torn"`    // ends of files that were cut off at the start
}

// segment is one file.
type segment struct {
	path   string
	size   int64
	blocks []placed
}

// placed is a block in a file.
type placed struct {
	header
	at int64 // of its header
}

// Open opens the log in a directory, or makes it.
func Open(dir string, limits Limits) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("flow log: %w", err)
	}
	s := &Store{dir: dir, limits: limits}
	if err := s.read(); err != nil {
		return nil, fmt.Errorf("flow log: %w", err)
	}
	s.trim(time.Now())
	return s, nil
}

// read takes stock of what is there.
func (s *Store) read() error {
	entries, err := os.ReadDir(s.dir) // sorted by name, which is the number of the first record
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentEnd)
		if _, err := strconv.ParseUint(name, 16, 64); !ok || err != nil || len(name) != 16 {
			continue
		}
		g, torn, err := readSegment(filepath.Join(s.dir, e.Name()))
		if err != nil {
			return err
		}
		if torn {
			s.stats.Torn++
		}
		if len(g.blocks) == 0 {
			if err := os.Remove(g.path); err != nil {
				return err
			}
			continue
		}
		s.segments = append(s.segments, g)
		last := g.blocks[len(g.blocks)-1]
		s.first = max(s.first, last.first+uint64(last.count))
	}
	return s.readTail()
}

// readSegment reads the headers of a segment, and cuts a torn end off.
func readSegment(path string) (*segment, bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	g := &segment{path: path}
	b := make([]byte, headerSize)
	for g.size < info.Size() {
		if _, err := f.ReadAt(b, g.size); err != nil {
			break
		}
		h, err := readHeader(b)
		if err != nil || g.size+headerSize+int64(h.body) > info.Size() {
			break
		}
		g.blocks = append(g.blocks, placed{h, g.size})
		g.size += headerSize + int64(h.body)
	}
	// The last block may have a header and no content, after a power cut.
	for n := len(g.blocks); n > 0; n = len(g.blocks) {
		if _, err := g.blocks[n-1].open(f); err == nil {
			break
		} else if !errors.Is(err, errDamaged) {
			return nil, false, err
		}
		g.size, g.blocks = g.blocks[n-1].at, g.blocks[:n-1]
	}
	if g.size == info.Size() {
		return g, false, nil
	}
	return g, true, f.Truncate(g.size)
}

// open reads the block.
func (p placed) open(f io.ReaderAt) (*block, error) {
	body := make([]byte, p.body)
	if _, err := f.ReadAt(body, p.at+headerSize); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errDamaged
		}
		return nil, err
	}
	return openBlock(p.header, body)
}

// readTail reads what had not become a block, without what has.
func (s *Store) readTail() error {
	var err error
	if s.file, err = os.OpenFile(filepath.Join(s.dir, tailName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return err
	}
	b, err := io.ReadAll(s.file)
	if err != nil {
		return err
	}
	for len(b) > int(s.tailSize) {
		rest := b[s.tailSize:]
		h, err := readHeader(rest)
		if err != nil || len(rest) < headerSize+int(h.body) {
			break
		}
		one, err := openBlock(h, rest[headerSize:headerSize+int(h.body)])
		if err != nil {
			break
		}
		records, err := one.all()
		if err != nil {
			break
		}
		s.tailSize += headerSize + int64(h.body)
		if h.first < s.first+uint64(len(s.tail)) {
			continue // a block has it
		}
		if len(s.tail) == 0 {
			s.first = h.first
		}
		s.tail = append(s.tail, records...)
	}
	if int(s.tailSize) < len(b) {
		s.stats.Torn++
		return s.file.Truncate(s.tailSize)
	}
	return nil
}

// Append adds records. When it returns, a daemon that is killed does not lose them.
func (s *Store) Append(records []flowrecord.Record) error {
	for len(records) > 0 {
		s.mu.Lock()
		n := min(len(records), blockRecords-len(s.tail))
		first := s.first + uint64(len(s.tail))
		s.mu.Unlock()
		if n > 0 {
			b := encode(records[:n], first, false)
			if _, err := s.file.Write(b); err != nil {
				_ = s.file.Truncate(s.tailSize) // half a batch; what fails here is cut off at the next start
				return fmt.Errorf("flow log: %w", err)
			}
			s.mu.Lock()
			s.tailSize += int64(len(b))
			s.tail = append(s.tail, records[:n]...)
			s.mu.Unlock()
			records = records[n:]
		}
		if err := s.pack(); err != nil {
			return fmt.Errorf("flow log: %w", err)
		}
	}
	return nil
}

// pack makes a block of a tail that is long enough.
func (s *Store) pack() error {
	s.mu.Lock()
	tail, first := s.tail, s.first
	s.mu.Unlock()
	if len(tail) < blockRecords {
		return nil
	}
	b := encode(tail, first, true)
	h, err := readHeader(b)
	if err != nil {
		return err
	}
	g := s.segmentFor(len(b), first)
	f, err := os.OpenFile(g.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = f.WriteAt(b, g.size); err == nil {
		err = f.Sync()
	}
	if err != nil {
		_ = f.Truncate(g.size)
		return err
	}
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	s.mu.Lock()
	if g.size == 0 {
		s.segments = append(s.segments, g)
	}
	g.blocks = append(slices.Clip(g.blocks), placed{h, g.size})
	g.size += int64(len(b))
	s.tail, s.tailSize, s.first = nil, 0, first+uint64(len(tail))
	s.mu.Unlock()
	s.trim(time.Now())
	return nil
}

// segmentFor is the segment that so many bytes go to.
func (s *Store) segmentFor(bytes int, first uint64) *segment {
	most := min(max(s.limits.Bytes/16, leastSegment), mostSegment)
	if n := len(s.segments); n > 0 && s.segments[n-1].size+int64(bytes) <= most {
		return s.segments[n-1]
	}
	return &segment{path: filepath.Join(s.dir, fmt.Sprintf("%016x", first)+segmentEnd)}
}

// Trim removes what is too old. Append removes what is too much.
func (s *Store) Trim() { s.trim(time.Now()) }

func (s *Store) trim(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := int64(0)
	if s.limits.Age > 0 {
		oldest = now.Add(-s.limits.Age).UnixMilli()
	}
	for len(s.segments) > 0 {
		g := s.segments[0]
		newest := slices.MaxFunc(g.blocks, func(a, b placed) int { return cmp.Compare(a.to, b.to) }).to
		if newest >= oldest && s.bytes() <= s.limits.Bytes {
			break
		}
		if err := os.Remove(g.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			break // it is tried again with the next block
		}
		for _, b := range g.blocks {
			s.stats.Removed += uint64(b.count)
		}
		s.segments = s.segments[1:]
	}
	if n := len(s.tail); n > 0 && s.tail[n-1].To.UnixMilli() < oldest && s.file.Truncate(0) == nil {
		s.stats.Removed += uint64(n)
		s.first, s.tail, s.tailSize = s.first+uint64(n), nil, 0
	}
}

func (s *Store) bytes() int64 {
	sum := s.tailSize
	for _, g := range s.segments {
		sum += g.size
	}
	return sum
}

// SetLimits changes what the log may take, and removes what is more.
func (s *Store) SetLimits(l Limits) {
	s.mu.Lock()
	s.limits = l
	s.mu.Unlock()
	s.trim(time.Now())
}

// Stats tells what there is.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.stats
	a.Bytes, a.Segments, a.Tail = s.bytes(), len(s.segments), len(s.tail)
	a.Records = uint64(len(s.tail))
	oldest := int64(0)
	for _, g := range s.segments {
		a.Blocks += len(g.blocks)
		for _, b := range g.blocks {
			a.Records += uint64(b.count)
		}
	}
	switch {
	case len(s.segments) > 0:
		oldest = s.segments[0].blocks[0].from
	case len(s.tail) > 0:
		oldest = s.tail[0].From.UnixMilli()
	default:
		return a
	}
	t := time.UnixMilli(oldest)
	a.Oldest = &t
	return a
}

// Next is the number that the next record gets. Numbers are never used again.
func (s *Store) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first + uint64(len(s.tail))
}

// Close closes the log.
func (s *Store) Close() error { return s.file.Close() }
