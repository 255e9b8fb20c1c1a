// SPDX-License-Identifier: Apache-2.0

package data

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"minne/internal/lab/algo/lpm"
)

// RandomKeys are n addresses of a family that packets on the Internet may have: of IPv4 any public one, of IPv6 any of
// 2000::/3, most of which no table has a route for.
func RandomKeys(f lpm.Family, n int, seed uint64) []lpm.Key {
	rng := rand.New(rand.NewPCG(seed, 2))
	keys := make([]lpm.Key, n)
	for i := range keys {
		keys[i] = anywhere(f, rng)
	}
	return keys
}

func anywhere(f lpm.Family, rng *rand.Rand) lpm.Key {
	if f == lpm.IPv6 {
		return lpm.Key{Hi: 1<<61 | rng.Uint64()>>3, Lo: rng.Uint64()}
	}
	for {
		k := lpm.Key{Hi: uint64(rng.Uint32()) << 32}
		if a := k.Address(f); a.IsGlobalUnicast() && !a.IsPrivate() && a.As4()[0] != 0 && a.As4()[0] < 224 {
			return k
		}
	}
}

// KeysInTable are n addresses inside random prefixes of routes.
func KeysInTable(routes []lpm.Route, n int, seed uint64) []lpm.Key {
	rng := rand.New(rand.NewPCG(seed, 3))
	keys := make([]lpm.Key, n)
	for i := range keys {
		keys[i] = inside(routes[rng.IntN(len(routes))].Prefix, rng)
	}
	return keys
}

// inside is a random address of a prefix.
func inside(p netip.Prefix, rng *rand.Rand) lpm.Key {
	k := lpm.KeyOf(p.Masked().Addr())
	switch n := p.Bits(); {
	case p.Addr().Is4():
		k.Hi |= rng.Uint64() >> n &^ (1<<32 - 1)
	case n <= 64:
		k.Hi |= rng.Uint64() >> n // a shift by 64 gives 0
		k.Lo = rng.Uint64()
	default:
		k.Lo |= rng.Uint64() >> (n - 64)
	}
	return k
}

// KeyBytes are keys as procbench reads them: addresses in network byte order.
func KeyBytes(f lpm.Family, keys []lpm.Key) [][]byte {
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = k.Address(f).AsSlice()
	}
	return out
}

// Members are n different keys of 4 bytes for a filter, like addresses of a blocklist, and as many strangers that are none of them.
func Members(n int, seed uint64) (members, strangers [][]byte) {
	rng := rand.New(rand.NewPCG(seed, 4))
	// An odd factor and an exclusive or take different numbers to different ones.
	factor, mask := rng.Uint32()|1, rng.Uint32()
	for i := range uint32(n) {
		members = append(members, binary.BigEndian.AppendUint32(nil, 2*i*factor^mask))
		strangers = append(strangers, binary.BigEndian.AppendUint32(nil, (2*i+1)*factor^mask))
	}
	for _, list := range [][][]byte{members, strangers} {
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return members, strangers
}
