/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Bloom filters: whether a key may be in the set. Answers are 0 and 1.
 */
#include "procbench.h"

#include "algo/bloom.h"

#define HAS(SIZE, STRIDE) \
	bloom_has(f, bloom_hash(f, (const algo_u8 *)w->set->data + i * (STRIDE), SIZE))
#define COUNTS(SIZE, STRIDE) \
	counting_has(f, bloom_hash(f, (const algo_u8 *)w->set->data + i * (STRIDE), SIZE))
#define OPEN struct bloom f = bloom_open(w->table->view)

EACH_WAY(bloom4, OPEN, HAS(4, 4))
EACH_WAY(bloom16, OPEN, HAS(16, 16))
EACH_WAY(bloom_any, OPEN, HAS(w->set->key, w->set->stride))
EACH_WAY(counting4, OPEN, COUNTS(4, 4))
EACH_WAY(counting16, OPEN, COUNTS(16, 16))
EACH_WAY(counting_any, OPEN, COUNTS(w->set->key, w->set->stride))

/* changed adds a key and takes it back; it must have been found then. */
static algo_u32 changed(struct bloom f, algo_u32 *words, const algo_u8 *key, algo_u32 length)
{
	struct bloom_hash h = bloom_hash(f, key, length);

	counting_add(f, words, h);
	return counting_remove(f, words, h);
}

static algo_u32 counting_update(const struct work *w)
{
	OPEN;
	algo_u32 sum = 0;

	for (size_t i = 0; i < w->count; i++)
		sum += changed(f, w->table->words, (const algo_u8 *)w->set->data + i * w->set->stride, w->set->key);
	return sum;
}

static const char *bits_fit(const struct table *t, const struct set *s)
{
	(void)s;
	return bloom_fits(t->view, 32) ? 0 : "its header is not a Bloom filter's";
}

static const char *counters_fit(const struct table *t, const struct set *s)
{
	(void)s;
	return bloom_fits(t->view, 8) ? 0 : "its header is not a counting Bloom filter's";
}

static const struct asking *bloom_asks(const struct table *t, const struct set *s)
{
	static const struct asking by4 = { bloom4_answer, { WAYS(bloom4) } };
	static const struct asking by16 = { bloom16_answer, { WAYS(bloom16) } };
	static const struct asking by_any = { bloom_any_answer, { WAYS(bloom_any) } };

	(void)t;
	return s->key == 4 ? &by4 : s->key == 16 ? &by16 : &by_any;
}

static const struct asking *counting_asks(const struct table *t, const struct set *s)
{
	static const struct asking by4 = { counting4_answer, { WAYS(counting4), { "update", counting_update } } };
	static const struct asking by16 = { counting16_answer, { WAYS(counting16), { "update", counting_update } } };
	static const struct asking by_any = { counting_any_answer, { WAYS(counting_any), { "update", counting_update } } };

	(void)t;
	return s->key == 4 ? &by4 : s->key == 16 ? &by16 : &by_any;
}

const struct algorithm bloom_algorithm = {
	.name = "bloom",
	.kind = ALGO_BLOOM,
	.fits = bits_fit,
	.asks = bloom_asks,
};

const struct algorithm counting_algorithm = {
	.name = "counting-bloom",
	.kind = ALGO_COUNTING_BLOOM,
	.fits = counters_fit,
	.asks = counting_asks,
};
