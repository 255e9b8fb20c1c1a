/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Longest prefix match: tree bitmap and shape-shifting trie. Answers are next hops, 0 for none.
 */
#include "procbench.h"
#include "addresses.h"

#include "algo/shapeshifting.h"
#include "algo/treebitmap_many.h"

#define OPEN struct algo_table t = w->table->view; const algo_u32 *a = w->set->data
#define OPEN6 struct algo_table t = w->table->view; const struct algo_address6 *a = w->set->data

EACH_WAY(tree_bitmap4, OPEN, algo_tbm4_lookup(t, a[i]))
EACH_WAY(tree_bitmap6, OPEN6, algo_tbm6_lookup(t, a[i].hi, a[i].lo))
EACH_WAY(shape_shifting4, OPEN, algo_sst4_lookup(t, a[i]))
EACH_WAY(shape_shifting6, OPEN6, algo_sst6_lookup(t, a[i].hi, a[i].lo))

/* BATCHED defines NAME_batched, which looks many addresses up at a time. */
#define BATCHED(NAME, ADDRESS, MANY)                                                                                \
	static algo_u32 NAME##_batched(const struct work *w)                                                        \
	{                                                                                                           \
		const ADDRESS *a = w->set->data;                                                                    \
		algo_u32 hops[ALGO_TBM_BATCH], sum = 0;                                                             \
                                                                                                                    \
		for (size_t i = 0; i < w->count; i += ALGO_TBM_BATCH) {                                             \
			algo_u32 n = w->count - i < ALGO_TBM_BATCH ? (algo_u32)(w->count - i) : ALGO_TBM_BATCH;     \
                                                                                                                    \
			MANY(w->table->view, a + i, hops, n);                                                       \
			for (algo_u32 j = 0; j < n; j++)                                                            \
				sum += hops[j];                                                                     \
		}                                                                                                   \
		return sum;                                                                                         \
	}

BATCHED(tree_bitmap4, algo_u32, algo_tbm4_many)
BATCHED(tree_bitmap6, struct algo_address6, algo_tbm6_many)

static algo_u32 family(const struct table *t)
{
	return algo_word(t->view, ALGO_LPM_FAMILY);
}

static const char *fits(const struct table *t, const struct set *s)
{
	if (family(t) != 4 && family(t) != 6)
		return "its header tells of another family than IPv4 and IPv6";
	return addresses_fit(family(t), s);
}

static void prepare(const struct table *t, struct set *s)
{
	addresses_prepare(family(t), s);
}

static const struct asking *tree_bitmap_asks(const struct table *t, const struct set *s)
{
	static const struct asking by4 = { tree_bitmap4_answer, { WAYS(tree_bitmap4), { "batched", tree_bitmap4_batched } } };
	static const struct asking by6 = { tree_bitmap6_answer, { WAYS(tree_bitmap6), { "batched", tree_bitmap6_batched } } };

	(void)s;
	return family(t) == 4 ? &by4 : &by6;
}

static const struct asking *shape_shifting_asks(const struct table *t, const struct set *s)
{
	static const struct asking by4 = { shape_shifting4_answer, { WAYS(shape_shifting4) } };
	static const struct asking by6 = { shape_shifting6_answer, { WAYS(shape_shifting6) } };

	(void)s;
	return family(t) == 4 ? &by4 : &by6;
}

const struct algorithm tree_bitmap_algorithm = {
	.name = "tree-bitmap",
	.kind = ALGO_TREE_BITMAP,
	.fits = fits,
	.prepare = prepare,
	.asks = tree_bitmap_asks,
};

const struct algorithm shape_shifting_algorithm = {
	.name = "shape-shifting",
	.kind = ALGO_SHAPE_SHIFTING,
	.fits = fits,
	.prepare = prepare,
	.asks = shape_shifting_asks,
};
