/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Reading table images in native programs: what can be told to be broken or meant for something else is refused.
 * algo.h has the layout. A program reads the header's ALGO_HEAD_END words, asks
 * algo_image_head, which tells how many words there are in all, reads them and asks algo_image_body.
 */
#ifndef MINNE_ALGO_IMAGE_H
#define MINNE_ALGO_IMAGE_H

#ifdef __bpf__
#error "eBPF programs get images that their loader has checked"
#endif

#include "algo.h"

#define ALGO_IMAGE_MOST (1U << 28) /* words: 1 GiB */

enum algo_image_fault {
	ALGO_IMAGE_GOOD,
	ALGO_IMAGE_TURNED, /* good, but of a CPU of the other byte order: algo_turn each word, ask again */
	ALGO_IMAGE_MAGIC,
	ALGO_IMAGE_VERSION,
	ALGO_IMAGE_KIND,
	ALGO_IMAGE_SIZE,
	ALGO_IMAGE_USED,
	ALGO_IMAGE_CHECKSUM,
};

ALGO_INLINE const char *algo_image_says(enum algo_image_fault fault)
{
	switch (fault) {
	case ALGO_IMAGE_GOOD:
		return "it is good";
	case ALGO_IMAGE_TURNED:
		return "it is for a CPU of the other byte order";
	case ALGO_IMAGE_MAGIC:
		return "it does not begin as a table image does";
	case ALGO_IMAGE_VERSION:
		return "it has another version than this program knows";
	case ALGO_IMAGE_KIND:
		return "it is a table of another algorithm";
	case ALGO_IMAGE_SIZE:
		return "its header tells of a size that is not a power of two of words, or too large";
	case ALGO_IMAGE_USED:
		return "its header tells of more words in use than there are";
	case ALGO_IMAGE_CHECKSUM:
		return "wrong checksum: it was changed";
	}
	return "unknown fault";
}

ALGO_INLINE algo_u32 algo_turn(algo_u32 word)
{
	return word << 24 | (word << 8 & 0xff0000) | (word >> 8 & 0xff00) | word >> 24;
}

/* algo_crc goes on with a CRC-32C (RFC 3720 B.4) over words, each as its bytes from the lowest on. It begins with 0. */
ALGO_INLINE algo_u32 algo_crc(algo_u32 crc, const algo_u32 *words, algo_u32 count)
{
	/* Four bits at a time. */
	static const algo_u32 steps[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	algo_u32 i;
	int n;

	crc = ~crc;
	for (i = 0; i < count; i++) {
		crc ^= words[i];
		for (n = 0; n < 8; n++)
			crc = crc >> 4 ^ steps[crc & 15];
	}
	return ~crc;
}

/* algo_image_head checks the first ALGO_HEAD_END words of an image. */
ALGO_INLINE enum algo_image_fault algo_image_head(const algo_u32 *words, algo_u32 kind)
{
	algo_u32 size = words[ALGO_HEAD_WORDS];

	if (words[ALGO_HEAD_MAGIC] == algo_turn(ALGO_MAGIC))
		return ALGO_IMAGE_TURNED;
	if (words[ALGO_HEAD_MAGIC] != ALGO_MAGIC)
		return ALGO_IMAGE_MAGIC;
	if (words[ALGO_HEAD_VERSION] != ALGO_VERSION)
		return ALGO_IMAGE_VERSION;
	if (words[ALGO_HEAD_KIND] != kind)
		return ALGO_IMAGE_KIND;
	if (size < ALGO_HEAD_END || size > ALGO_IMAGE_MOST || (size & (size - 1)))
		return ALGO_IMAGE_SIZE;
	if (words[ALGO_HEAD_USED] < ALGO_HEAD_END || words[ALGO_HEAD_USED] > size)
		return ALGO_IMAGE_USED;
	return ALGO_IMAGE_GOOD;
}

/* algo_image_body checks the rest of an image whose header is good. */
ALGO_INLINE enum algo_image_fault algo_image_body(const algo_u32 *words)
{
	algo_u32 crc = algo_crc(0, words + ALGO_HEAD_OWN, words[ALGO_HEAD_USED] - ALGO_HEAD_OWN);

	return crc == words[ALGO_HEAD_CHECKSUM] ? ALGO_IMAGE_GOOD : ALGO_IMAGE_CHECKSUM;
}

#endif
