// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"minne/internal/lab/device"
	"minne/internal/lab/statistics"
	"minne/internal/model/packet"
)

// What the fast path takes for packets that differ. One packet again and again finds all that it needs in the first cache and
// every branch where it was the last time; rules that take 36 ns then take twice as much when each packet goes another way
// through them. BPF_PROG_TEST_RUN repeats one packet. So a small program stands before the fast path's: it lays the next of many
// packets into the frame and goes on there (a tail call). What it takes itself is measured before a program that does nothing, but not
// what it does to the fast path's (headers that were written a moment ago, a tail call's indirect jump): the difference
// of two routers is right.

const (
	variedPackets = 1 << 16
	variedRepeats = 1 << 10 // in one run, which is short: most runs are not interrupted
	variedRuns    = 101
	headBytes     = 48 // of a frame that are laid: all headers that the fast path reads of UDP and TCP
	frameBytes    = 60
)

// variation is the small program, before one that takes part in turns.
type variation struct {
	program *ebpf.Program
	next    *ebpf.Map // the program that it goes on with
	maps    []*ebpf.Map
	idle    *ebpf.Program
}

// newVariation loads the program with packets that a router of this MAC forwards.
func newVariation(router packet.MAC) (v *variation, err error) {
	v = &variation{}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	for _, spec := range []*ebpf.MapSpec{
		{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1},
		{Type: ebpf.Array, KeySize: 4, ValueSize: headBytes, MaxEntries: variedPackets},
		{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1},
	} {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return v, fmt.Errorf("make a map of packets: %w", err)
		}
		v.maps = append(v.maps, m)
	}
	v.next = v.maps[2]
	random := rand.New(rand.NewPCG(Seed, 8))
	for i := range uint32(variedPackets) {
		if err := v.maps[1].Put(i, variedFrame(router, random, i%2 == 1)[:headBytes]); err != nil {
			return v, fmt.Errorf("lay a packet: %w", err)
		}
	}
	for into, code := range map[**ebpf.Program]asm.Instructions{&v.program: v.code(), &v.idle: {asm.Mov.Imm(asm.R0, xdpRedirect), asm.Return()}} {
		if *into, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "GPL", Instructions: code}); err != nil {
			return v, fmt.Errorf("load the program that varies packets: %w", err)
		}
	}
	return v, nil
}

func (v *variation) close() {
	for _, p := range []*ebpf.Program{v.program, v.idle} {
		if p != nil {
			p.Close()
		}
	}
	for _, m := range v.maps {
		m.Close()
	}
}

// code takes the number of the next packet, lays its head into the frame, and goes on with the other program.
func (v *variation) code() asm.Instructions {
	const end = "end"
	key := func(m *ebpf.Map) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, end),
		}
	}
	code := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.StoreImm(asm.RFP, -4, 0, asm.Word)}
	code = append(code, key(v.maps[0])...)
	code = append(code,
		asm.LoadMem(asm.R7, asm.R0, 0, asm.Word), asm.Mov.Reg(asm.R8, asm.R7), asm.Add.Imm(asm.R8, 1),
		asm.And.Imm(asm.R8, variedPackets-1), asm.StoreMem(asm.R0, 0, asm.R8, asm.Word), asm.StoreMem(asm.RFP, -4, asm.R7, asm.Word))
	code = append(code, key(v.maps[1])...)
	code = append(code,
		asm.LoadMem(asm.R2, asm.R6, 0, asm.Word), asm.LoadMem(asm.R3, asm.R6, 4, asm.Word), // data, data_end of struct xdp_md
		asm.Mov.Reg(asm.R4, asm.R2), asm.Add.Imm(asm.R4, headBytes), asm.JGT.Reg(asm.R4, asm.R3, end))
	size, step := asm.Half, int16(2) // a frame begins at an odd multiple of 2, which other CPUs have to mind
	if runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" {
		size, step = asm.DWord, 8
	}
	for at := int16(0); at < headBytes; at += step {
		code = append(code, asm.LoadMem(asm.R5, asm.R0, at, size), asm.StoreMem(asm.R2, at, asm.R5, size))
	}
	return append(code,
		asm.Mov.Reg(asm.R1, asm.R6), asm.LoadMapPtr(asm.R2, v.next.FD()), asm.Mov.Imm(asm.R3, 0), asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(end), asm.Return())
}

// variedFrame is a frame with random public addresses and ports, TCP (SYN) or UDP.
func variedFrame(router packet.MAC, random *rand.Rand, tcp bool) []byte {
	address := func() netip.Addr {
		for {
			a := anyAddress(random)
			if !device.InHosts[0].Masked().Contains(a) && !rigNetworks.Contains(a) {
				return a
			}
		}
	}
	src, dst := address(), address()
	ports := random.Uint32()
	protocol := uint8(packet.ProtoUDP)
	transport := make([]byte, frameBytes-14-20)
	binary.BigEndian.PutUint32(transport, ports)
	binary.BigEndian.PutUint16(transport[4:], uint16(len(transport))) // of UDP, without a checksum
	if tcp {
		protocol = packet.ProtoTCP
		binary.BigEndian.PutUint32(transport[4:], 1)
		transport[12], transport[13] = 5<<4, 2 // words of the header; SYN
	}
	ip := packet.IPv4{TTL: 64, Protocol: protocol, Src: src, Dst: dst}.Append(nil, transport)
	return packet.Ethernet{Dst: router, Src: packet.MAC{2, 0, 0, 0, 0, 1}, Type: packet.TypeIPv4}.Append(nil, ip)
}

// rigNetworks are those of the lab itself (RFC 2544).
var rigNetworks = netip.MustParsePrefix("198.18.0.0/15")

func anyAddress(random *rand.Rand) netip.Addr {
	for {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], random.Uint32())
		if a := netip.AddrFrom4(b); a.IsGlobalUnicast() && !a.IsPrivate() && b[0] != 0 && b[0] < 224 {
			return a
		}
	}
}

// threadTime is how long the calling thread has had a CPU, in ns: what others on the machine take is not the program's.
func threadTime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // fails only for a bad pointer
	return t.Nano()
}

// cost is ns that a program takes for a packet of many that differ.
func (v *variation) cost(program *ebpf.Program, ifindex uint32) (float64, error) {
	frame := make([]byte, frameBytes)
	run := func(of *ebpf.Program, repeats uint32) (code uint32, ns float64, err error) {
		if err := v.next.Put(uint32(0), of); err != nil {
			return 0, 0, fmt.Errorf("go on with the fast path's program: %w", err)
		}
		begin := threadTime()
		code, err = v.program.Run(&ebpf.RunOptions{Data: frame, Repeat: repeats, Context: xdpContext{DataEnd: frameBytes, IngressIfindex: ifindex}})
		return code, float64(threadTime()-begin) / float64(repeats), err
	}
	forwarded := 0
	for range testRuns {
		code, _, err := run(program, 1)
		if err != nil {
			return 0, fmt.Errorf("run the fast path's program with random packets: %w", err)
		}
		if code == xdpRedirect {
			forwarded++
		}
	}
	if forwarded < testRuns*9/10 {
		return 0, errors.New("the fast path forwards too few of random packets")
	}
	var own []float64
	for range variedRuns {
		_, idle, err := run(v.idle, variedRepeats)
		if err != nil {
			return 0, err
		}
		_, all, err := run(program, variedRepeats)
		if err != nil {
			return 0, err
		}
		own = append(own, all-idle)
	}
	return statistics.Median(own), nil
}
