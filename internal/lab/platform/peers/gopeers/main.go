// SPDX-License-Identifier: Apache-2.0

// Minne-peer-go asks Go modules what minne-procbench asks Minne's tables: bart for longest prefix match,
// bits-and-blooms and xorfilter for whether a key is of a set. procbench/peers/peer.h says how it is used.
//
// It is a module of its own: nothing of it belongs into the router's program or into the list of what that depends on.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// library is a module's way to do a task.
type library struct {
	name string
	key  int // bytes of its keys; 0: any
	// build makes the table from a file.
	build func(file string) (table, error)
}

// table answers keys; the answer to key i is what ask returns.
type table interface {
	// prepare turns keys as they were read into what the library takes, and returns two passes over the first n of
	// them: one with each answer handed over, one with the sum only.
	prepare(keys [][]byte) (each func(n int, take func(uint32)), sum func(n int) uint32)
}

var libraries = []library{
	{"bart-4", 4, buildBart},
	{"bart-6", 16, buildBart},
	{"bart-fast-4", 4, buildFast},
	{"bart-fast-6", 16, buildFast},
	{"bloom", 0, buildBloom},
	{"xor8", 0, buildXor},
	{"binary-fuse8", 0, buildFuse},
}

// The JSON that is printed, and way for the order of what is measured.
type (
	told struct {
		Program      string  `json:"program"`
		Version      string  `json:"version"`
		Algorithm    string  `json:"algorithm"`
		BuildSeconds float64 `json:"build_seconds"`
		Bytes        uint64  `json:"bytes"`
		Sets         []set   `json:"sets"`
		Ways         []way   `json:"ways"`
	}
	set struct {
		Count    int    `json:"count"`
		Sum      uint32 `json:"sum"`
		Checksum string `json:"checksum"`
	}
	way struct {
		Set    int    `json:"set"`
		Access string `json:"access"`
		Order  string `json:"order"`
		Per    string `json:"per"`

		ask      func(int) uint32
		count    int
		expected uint32
	}
	turn struct {
		NS []float64 `json:"ns"`
	}
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "minne-peer-go:", err)
		os.Exit(1)
	}
}

func run() error {
	runtime.LockOSThread() // it is this thread's time that is measured
	version := flag.Bool("version", false, "print the modules and their versions")
	cpu := flag.Int("cpu", -1, "stay on this CPU")
	hot := flag.Int("hot", 2048, "keys that are asked for again and again")
	flag.Parse()
	if *version {
		for _, v := range versions() {
			fmt.Println(v)
		}
		return nil
	}
	if flag.NArg() < 3 {
		return errors.New("usage: minne-peer-go [-cpu N] [-hot N] ALGORITHM TABLE KEYS...")
	}
	if *cpu >= 0 {
		if err := stayOn(*cpu); err != nil {
			return err
		}
	}
	var l *library
	for i := range libraries {
		if libraries[i].name == flag.Arg(0) {
			l = &libraries[i]
		}
	}
	if l == nil {
		return fmt.Errorf("%s: no algorithm of this name", flag.Arg(0))
	}
	say, err := l.open(flag.Arg(1), flag.Args()[2:], *hot)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(say); err != nil {
		return err
	}
	return takeTurns(say.Ways)
}

// versions are the modules' names and versions, as peers.Peer has the names.
func versions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var list []string
	for _, m := range info.Deps {
		for path, name := range map[string]string{
			"github.com/gaissmai/bart":            "bart",
			"github.com/bits-and-blooms/bloom/v3": "bits-and-blooms",
			"github.com/FastFilter/xorfilter":     "xorfilter",
		} {
			if m.Path == path {
				list = append(list, name+" "+m.Version)
			}
		}
	}
	return list
}

// stayOn keeps the calling thread on a CPU.
func stayOn(cpu int) error {
	var mask [128]byte
	if cpu >= 8*len(mask) {
		return fmt.Errorf("CPU %d: at most %d", cpu, 8*len(mask)-1)
	}
	mask[cpu/8] = 1 << (cpu % 8)
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return fmt.Errorf("CPU %d: %w", cpu, errno)
	}
	return nil
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// open builds the table and answers all keys.
func (l *library) open(file string, sets []string, hot int) (*told, error) {
	before, begin := heap(), time.Now()
	t, err := l.build(file)
	if err != nil {
		return nil, err
	}
	say := &told{Program: "minne-peer-go", Version: strings.Join(versions(), ", "), Algorithm: l.name, BuildSeconds: time.Since(begin).Seconds()}
	say.Bytes = heap() - before
	for i, name := range sets {
		keys, err := readKeys(name)
		if err != nil {
			return nil, err
		}
		if l.key != 0 && len(keys[0]) != l.key {
			return nil, fmt.Errorf("%s: keys of %d bytes, expected %d", name, len(keys[0]), l.key)
		}
		each, ask := t.prepare(keys)
		var sum checksum
		each(len(keys), sum.add)
		all := ask(len(keys))
		say.Sets = append(say.Sets, set{len(keys), all, fmt.Sprintf("%08x%08x", sum.a, sum.b)})
		if hot < len(keys) {
			say.Ways = append(say.Ways, way{i, "hot", "independent", "key", ask, hot, ask(hot)})
		}
		say.Ways = append(say.Ways, way{i, "all", "independent", "key", ask, len(keys), all})
	}
	return say, nil
}

// takeTurns measures each time that it is told to.
func takeTurns(ways []way) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		seconds, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil || seconds <= 0 || seconds > 3600 {
			return errors.New("standard input: expected a number of seconds")
		}
		var t turn
		for _, w := range ways {
			ns, err := w.measure(time.Duration(seconds * 1e9))
			if err != nil {
				return err
			}
			t.NS = append(t.NS, ns)
		}
		if err := json.NewEncoder(os.Stdout).Encode(t); err != nil {
			return err
		}
	}
	return lines.Err()
}

// measure is ns per key, of the time that the thread had the CPU, as minne-procbench measures.
func (w *way) measure(budget time.Duration) (float64, error) {
	end, passes := time.Now().Add(budget), 0
	begin, err := threadTime()
	if err != nil {
		return 0, err
	}
	for passes == 0 || time.Now().Before(end) {
		if w.ask(w.count) != w.expected {
			return 0, fmt.Errorf("lookups of %s keys answered otherwise than before", w.Access)
		}
		passes++
	}
	now, err := threadTime()
	return float64(now-begin) / float64(passes*w.count), err
}

// threadTime is CLOCK_THREAD_CPUTIME_ID in ns, of the calling goroutine's thread.
func threadTime() (int64, error) {
	const clock = 3
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0, fmt.Errorf("the thread's time: %w", errno)
	}
	return t.Nano(), nil
}
