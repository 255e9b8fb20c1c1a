// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Internet checksums (RFC 1071). Sums are over 16-bit words as they lie in
// memory, so that nothing has to be swapped. Wider words may be added as they
// are: 2^16 is 1 in the arithmetic of these sums, so the halves of a word count
// alike, and fold adds them up at the end.
#pragma once

// fold turns a sum into 16 bits. A sum over a header whose checksum is right folds to 0xffff.
static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)sum;
}

// sum32 adds n 32-bit words.
static __always_inline __u64 sum32(const void *bytes, int n)
{
	const __u32 *words = bytes;
	__u64 sum = 0;

#pragma unroll
	for (int i = 0; i < n; i++)
		sum += words[i];
	return sum;
}

// upper_checksum is a UDP or TCP checksum made of a sum: 0 would say that there is none (RFC 768).
static __always_inline __u16 upper_checksum(__u64 sum)
{
	__u16 check = ~fold(sum);

	return check ? check : 0xffff;
}

#define PIECE(bytes)                                               \
	if (p + (bytes) <= end) {                                  \
		sum = bpf_csum_diff(0, 0, p, (bytes), (__u32)sum); \
		p += (bytes);                                      \
	}

// sum_packet adds the bytes of a frame from an offset to its end, at most 1535 of
// them. The verifier takes pieces of constant length only; it sees this function
// once and not once for every way that leads here.
__noinline int sum_packet(struct xdp_md *ctx, __u32 at)
{
	void *p = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__s64 sum = 0;

	if (at > 64)
		return 0;
	p += at;
	PIECE(512)
	PIECE(512)
	PIECE(256)
	PIECE(128)
	PIECE(64)
	PIECE(32)
	PIECE(16)
	PIECE(8)
	PIECE(4)
	if (p + 2 <= end) {
		sum += *(__u16 *)p;
		p += 2;
	}
	if (p + 1 <= end)
		sum += bpf_htons((__u16)*(__u8 *)p << 8);
	return fold(sum);
}

#undef PIECE
