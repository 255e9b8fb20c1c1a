/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Searches tables that become more and more nonsense, with the passes of minne-procbench, for its tests:
 *
 *	spoil ALGORITHM IMAGE KEYS|PAYLOAD TIMES SEED
 *
 * Each time some words of the image as it was are changed, half of them in its header. What the algorithm does not refuse is
 * searched in every way. The answers mean nothing; a sanitizer sees whether anything outside the image was read.
 */
#include "procbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static algo_u64 seed;

static algo_u32 draw(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (algo_u32)(seed >> 16);
}

static void spoil(struct table *t)
{
	algo_u32 n = 1 + draw() % 40;

	while (n--) {
		algo_u32 at = draw() & t->view.mask;

		if (n & 1 && draw() % 4 == 0)
			at &= ALGO_HEAD_END - 1;
		if (draw() & 1)
			t->words[at] = draw() >> (draw() & 31);
		else
			t->words[at] ^= (algo_u32)1 << (draw() & 31);
	}
}

static void search(const struct algorithm *a, struct table *t, struct set *s)
{
	struct algo_checksum sum = { 0, 0 };
	struct work w = { .table = t, .set = s, .count = s->count, .sum = &sum };
	const struct asking *asking = a->asks(t, s);

	if (w.count > 500)
		w.count = 500;
	if (a->payload && w.count > 10)
		w.count = 10;
	if (a->state) {
		size_t bytes = a->state(t);

		w.state = malloc(bytes);
		if (!w.state)
			exit(1);
		memset(w.state, 0, bytes);
	}
	asking->answer(&w);
	for (int i = 0; i < MOST_WAYS && asking->ways[i].name; i++)
		asking->ways[i].run(&w);
	free(w.state);
}

int main(int argc, char **argv)
{
	const struct algorithm *a;
	struct table t, spoilt;
	struct set s;
	int times, answered = 0, refused = 0;

	if (argc != 6)
		return 2;
	a = algorithm_named(argv[1]);
	if (!a)
		return 2;
	load_table(argv[2], a, 0, &t);
	load_set(argv[3], a, &s);
	if (a->prepare)
		a->prepare(&t, &s);
	times = atoi(argv[4]);
	seed = 0x9e3779b97f4a7c15ULL * (algo_u64)atoi(argv[5]);
	spoilt = t;
	/* Of exactly the image's size, so that the sanitizer sees what is read behind it. */
	spoilt.words = malloc(t.bytes);
	if (!spoilt.words)
		return 1;
	spoilt.view.words = spoilt.words;
	while (times--) {
		memcpy(spoilt.words, t.words, t.bytes);
		spoil(&spoilt);
		if (a->fits(&spoilt, &s)) {
			refused++;
			continue;
		}
		answered++;
		search(a, &spoilt, &s);
	}
	printf("%d answered, %d refused\n", answered, refused);
	free(spoilt.words);
	free(t.words);
	free(s.data);
	return 0;
}
