// SPDX-License-Identifier: Apache-2.0

package packet

import "net/netip"

// Sum adds the 16-bit words of b to sum without folding (RFC 1071). An odd last
// byte counts as the upper half of a word, so only the last piece of a message
// may have an odd length.
func Sum(sum uint32, b []byte) uint32 {
	for len(b) >= 2 {
		sum += uint32(b[0])<<8 | uint32(b[1])
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

// Fold turns a Sum into the Internet checksum, in host order. Over a header whose
// checksum field is right the result is zero.
func Fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// Checksum is the Internet checksum of b (RFC 1071), in host order.
func Checksum(b []byte) uint16 { return Fold(Sum(0, b)) }

// pseudoSum is the sum over the pseudo header of an upper-layer message
// (RFC 768, RFC 9293 3.1, RFC 8200 8.1). length counts the upper-layer bytes.
func pseudoSum(src, dst netip.Addr, protocol uint8, length int) uint32 {
	sum := Sum(0, src.AsSlice())
	sum = Sum(sum, dst.AsSlice())
	return sum + uint32(protocol) + uint32(length)
}

// UpperChecksum is the checksum of a UDP, TCP or ICMPv6 message between src and
// dst: the one over pseudo header and message. The message's own checksum field
// must be zero to compute it; over a right message the result is zero.
func UpperChecksum(src, dst netip.Addr, protocol uint8, message []byte) uint16 {
	return Fold(Sum(pseudoSum(src, dst, protocol, len(message)), message))
}
