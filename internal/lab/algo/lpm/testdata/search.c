/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Looks addresses up in a table image, for the tests of internal/lab/algo/lpm.
 *
 *	search tbm4|tbm6|sst4|sst6 IMAGE KEYS [TIMES]
 *
 * IMAGE and KEYS are in the CPU's byte order; a key is two 64-bit halves of an address. What
 * was found goes to standard output, 32 bits each; nodes looked at and ns of CPU time per lookup, as text, to standard error.
 * TIMES: so often some words of the image are changed and all keys are looked up in what it has become.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "read_all.h"
#include "shapeshifting.h"
#include "treebitmap_many.h"

#define EACH(lookup)                               \
	do {                                       \
		for (size_t i = 0; i < n; i++)     \
			answers[i] = lookup;       \
	} while (0)

static void search(const char *how, struct algo_table t, const struct algo_address6 *k, size_t n, algo_u32 *answers, algo_u32 *visits)
{
	if (!strcmp(how, "tbm4") && visits)
		EACH(algo_tbm4_visited(t, k[i].hi >> 32, visits));
	else if (!strcmp(how, "tbm4"))
		EACH(algo_tbm4_lookup(t, k[i].hi >> 32));
	else if (!strcmp(how, "tbm6") && visits)
		EACH(algo_tbm6_visited(t, k[i].hi, k[i].lo, visits));
	else if (!strcmp(how, "tbm6"))
		EACH(algo_tbm6_lookup(t, k[i].hi, k[i].lo));
	else if (!strcmp(how, "sst4") && visits)
		EACH(algo_sst4_visited(t, k[i].hi >> 32, visits));
	else if (!strcmp(how, "sst4"))
		EACH(algo_sst4_lookup(t, k[i].hi >> 32));
	else if (!strcmp(how, "sst6") && visits)
		EACH(algo_sst6_visited(t, k[i].hi, k[i].lo, visits));
	else if (!strcmp(how, "sst6"))
		EACH(algo_sst6_lookup(t, k[i].hi, k[i].lo));
	else
		exit(2);
}

/* search_many looks all keys up in batches, where there are any. */
static int search_many(const char *how, struct algo_table t, const struct algo_address6 *keys, size_t n, algo_u32 *answers)
{
	algo_u32 *addrs;

	if (!strcmp(how, "tbm6")) {
		algo_tbm6_many(t, keys, answers, (algo_u32)n);
		return 1;
	}
	if (strcmp(how, "tbm4"))
		return 0;
	addrs = malloc(4 * n);
	if (!addrs)
		exit(1);
	for (size_t i = 0; i < n; i++)
		addrs[i] = keys[i].hi >> 32;
	algo_tbm4_many(t, addrs, answers, (algo_u32)n);
	free(addrs);
	return 1;
}

/* spoil looks keys up in an image that becomes more and more nonsense. */
static void spoil(const char *how, struct algo_table t, const struct algo_address6 *keys, size_t n, algo_u32 *answers, int times)
{
	algo_u32 *words = (algo_u32 *)t.words, visits = 0;
	algo_u64 random = 0x9e3779b97f4a7c15ULL;

	while (times-- > 0) {
		for (int i = 0; i < 1 + times % 20; i++) {
			algo_u32 at;

			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			at = (algo_u32)(random >> 40) & t.mask;
			if (random & 1)
				words[at] = (algo_u32)random;
			else
				words[at] ^= (algo_u32)1 << (random >> 35 & 31);
		}
		search(how, t, keys, n, answers, times & 1 ? &visits : 0);
		search_many(how, t, keys, n, answers);
	}
}

int main(int argc, char **argv)
{
	size_t image_size, keys_size, n;
	struct timespec before, after;
	struct algo_table t;
	struct algo_address6 *keys;
	algo_u32 *answers, *again, visits = 0;
	double ns;

	if (argc < 4)
		return 2;
	t.words = read_all(argv[2], &image_size);
	t.mask = (algo_u32)(image_size / 4 - 1);
	keys = read_all(argv[3], &keys_size);
	n = keys_size / sizeof(*keys);
	answers = malloc(4 * n);
	again = malloc(4 * n);
	if (!answers || !again)
		return 1;
	search(argv[1], t, keys, n, again, &visits);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	search(argv[1], t, keys, n, answers, 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	ns = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
	if (memcmp(answers, again, 4 * n)) {
		fprintf(stderr, "a lookup that counts its visits answers something else\n");
		return 1;
	}
	if (search_many(argv[1], t, keys, n, again) && memcmp(answers, again, 4 * n)) {
		fprintf(stderr, "lookups in batches answer something else\n");
		return 1;
	}
	fprintf(stderr, "%.3f %.2f\n", (double)visits / (double)n, ns / (double)n);
	if (argc > 4)
		spoil(argv[1], t, keys, n, answers, atoi(argv[4]));
	if (fwrite(answers, 4, n, stdout) != n)
		return 1;
	free((void *)t.words);
	free(keys);
	free(answers);
	free(again);
	return 0;
}
