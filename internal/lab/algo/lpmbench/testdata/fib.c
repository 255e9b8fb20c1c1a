/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Looks addresses up in an image of the router's own, for the tests of internal/lab/algo/lpmbench.
 *
 *	fib FAMILY STRUCTURE ROOT_BITS IMAGE KEYS
 *
 * A key is two 64-bit halves of an address. What was found goes to standard output, 32 bits each.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fib_native.h"
#include "read_all.h"

struct key {
	__u64 hi, lo;
};

int main(int argc, char **argv)
{
	size_t image_size, keys_size;
	struct key *keys;
	void *image;
	__u32 words;
	int family;

	if (argc != 6)
		return 2;
	family = atoi(argv[1]);
	image = read_all(argv[4], &image_size);
	keys = read_all(argv[5], &keys_size);
	words = (__u32)((image_size - FIB_SLACK) / 4);
	fib_native_open4(image, words, (__u32)atoi(argv[2]), (__u32)atoi(argv[3]));
	fib_native_open6(image, words);
	for (size_t i = 0; i < keys_size / sizeof(*keys); i++) {
		__u32 hop = family == 4 ? fib4_lookup(keys[i].hi >> 32) : fib6_lookup(keys[i].hi, keys[i].lo);

		if (fwrite(&hop, 4, 1, stdout) != 1)
			return 1;
	}
	free(image);
	free(keys);
	return 0;
}
