/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Does what a list says with a filter's image, for the tests of internal/lab/algo/bloom.
 *
 *	filter IMAGE LIST [TIMES]
 *
 * IMAGE is in the CPU's byte order. LIST has records: a byte that says what to do, a byte of length, a
 * key. '?' and 'c' ask a Bloom filter and a counting one, '+' and '-' add to a counting one and take back. To standard output
 * goes an answer each, 0 or 1, a byte, and the image as it is then. TIMES: so often some words of the image are changed
 * beforehand and the list is gone through.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bloom.h"
#include "read_all.h"

static algo_u32 obey(struct bloom f, algo_u32 *words, algo_u8 what, const algo_u8 *key, algo_u32 length)
{
	struct bloom_hash h = bloom_hash(f, key, length);

	if (length == 4) {
		struct bloom_hash one = bloom_hash_word(f, (algo_u32)key[0] | (algo_u32)key[1] << 8 |
							   (algo_u32)key[2] << 16 | (algo_u32)key[3] << 24);

		if (one.a != h.a || one.b != h.b)
			exit(3);
	}
	switch (what) {
	case '?':
		return bloom_has(f, h);
	case 'c':
		return counting_has(f, h);
	case '+':
		counting_add(f, words, h);
		return 1;
	case '-':
		return counting_remove(f, words, h);
	}
	exit(2);
}

static size_t go_through(struct algo_table t, const algo_u8 *list, size_t size, algo_u8 *answers)
{
	size_t at = 0, n = 0;
	struct bloom f = bloom_open(t);

	while (at + 2 <= size && at + 2 + list[at + 1] <= size) {
		algo_u8 key[255]; /* of its own, so that a sanitizer sees what is read behind it */

		memcpy(key, list + at + 2, list[at + 1]);
		answers[n++] = (algo_u8)obey(f, (algo_u32 *)t.words, list[at], key, list[at + 1]);
		at += 2 + list[at + 1];
	}
	return n;
}

static void spoil(struct algo_table t)
{
	static algo_u64 random = 0x9e3779b97f4a7c15ULL;
	algo_u32 *words = (algo_u32 *)t.words;
	int i;

	for (i = 0; i < 12; i++) {
		algo_u32 at;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		at = (algo_u32)(random >> 40) & t.mask;
		if (i < 8)
			at &= ALGO_HEAD_END - 1;
		words[at & t.mask] = (algo_u32)random >> (random >> 58 & 31);
	}
}

int main(int argc, char **argv)
{
	size_t image_size, list_size, n;
	struct algo_table t;
	algo_u8 *list, *answers;
	int times;

	if (argc < 3)
		return 2;
	t.words = read_all(argv[1], &image_size);
	t.mask = (algo_u32)(image_size / 4 - 1);
	list = read_all(argv[2], &list_size);
	answers = malloc(list_size);
	if (!answers)
		return 1;
	for (times = argc > 3 ? atoi(argv[3]) : 0; times > 0; times--) {
		spoil(t);
		go_through(t, list, list_size, answers);
	}
	n = go_through(t, list, list_size, answers);
	if (fwrite(answers, 1, n, stdout) != n || fwrite(t.words, 1, image_size, stdout) != image_size)
		return 1;
	free((void *)t.words);
	free(list);
	free(answers);
	return 0;
}
