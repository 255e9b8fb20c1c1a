/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Pattern matching: which patterns occur in each record of a payload. The answers are the numbers of
 * those, ascending, and behind each record's 0xffffffff.
 */
#include "procbench.h"

#include "algo/hybrid.h"

/* Patterns of an image, at most: so that their bitmap stays small. */
#define MOST_PATTERNS (1U << 20)

/* state is what a search needs: behind it lies the bitmap. */
struct state {
	union {
		struct d2fa_run d2fa;
		struct hybrid_run hybrid;
	} run;
	algo_u32 found[];
};

static algo_u32 patterns(const struct table *t)
{
	return algo_word(t->view, D2FA_HEAD_PATTERNS);
}

/* bitmap is the words of a bitmap of patterns: a power of two. */
static algo_u32 bitmap(const struct table *t)
{
	algo_u32 words = 1;

	while (words < MOST_PATTERNS / 32 && words * 32 < patterns(t))
		words *= 2;
	return words;
}

static size_t state_size(const struct table *t)
{
	return sizeof(struct state) + (size_t)bitmap(t) * 4;
}

/* tell_found hands over the numbers of patterns that were found. */
static void tell_found(struct d2fa_found found, struct algo_checksum *sum)
{
	for (algo_u32 i = 0; i <= found.mask; i++)
		for (algo_u32 bit = 0; bit < 32 && found.words[i] >> bit; bit++)
			if (found.words[i] >> bit & 1)
				algo_checksum_add(sum, i * 32 + bit);
	algo_checksum_add(sum, 0xffffffffU);
}

static algo_u32 sum_found(struct d2fa_found found, algo_u32 sum)
{
	for (algo_u32 i = 0; i <= found.mask; i++)
		sum = sum * 5 + found.words[i];
	return sum;
}

/* EACH_RECORD defines the passes over a payload for automata whose functions' names begin with NAME. */
#define EACH_RECORD(NAME)                                                                   \
	static algo_u32 NAME##_pass(const struct work *w, struct algo_checksum *checksum)   \
	{                                                                                   \
		struct state *state = w->state;                                             \
		struct d2fa_found found = { state->found, bitmap(w->table) - 1 };           \
		const algo_u8 *record = w->set->data;                                       \
		algo_u32 sum = 0;                                                           \
		for (size_t i = 0; i < w->count; i++) {                                     \
			algo_u32 length = *(const algo_u32 *)(const void *)record;          \
			for (algo_u32 j = 0; j <= found.mask; j++)                          \
				found.words[j] = 0;                                         \
			NAME##_begin(w->table->view, &state->run.NAME, found);              \
			NAME##_feed(w->table->view, &state->run.NAME, record + 4, length, found); \
			NAME##_finish(w->table->view, &state->run.NAME, found);             \
			sum = sum_found(found, sum);                                        \
			if (checksum)                                                       \
				tell_found(found, checksum);                                \
			record += 4 + (size_t)(length + 3) / 4 * 4;                         \
		}                                                                           \
		return sum;                                                                 \
	}                                                                                   \
	static algo_u32 NAME##_answer(const struct work *w) { return NAME##_pass(w, w->sum); } \
	static algo_u32 NAME##_stream(const struct work *w) { return NAME##_pass(w, 0); }   \
	static const char *NAME##_fit(const struct table *t, const struct set *s)           \
	{                                                                                   \
		struct d2fa_found found = { 0, bitmap(t) - 1 };                             \
		(void)s;                                                                    \
		return NAME##_fits(t->view, found) ? 0 : "it needs more than this program has room for"; \
	}                                                                                   \
	static const struct asking *NAME##_asks(const struct table *t, const struct set *s) \
	{                                                                                   \
		static const struct asking asking = { NAME##_answer, { { "stream", NAME##_stream } } }; \
		(void)t;                                                                    \
		(void)s;                                                                    \
		return &asking;                                                             \
	}

EACH_RECORD(d2fa)
EACH_RECORD(hybrid)

const struct algorithm d2fa_algorithm = {
	.name = "d2fa",
	.kind = ALGO_D2FA,
	.payload = 1,
	.fits = d2fa_fit,
	.asks = d2fa_asks,
	.state = state_size,
};

const struct algorithm hybrid_algorithm = {
	.name = "hybrid",
	.kind = ALGO_HYBRID,
	.payload = 1,
	.fits = hybrid_fit,
	.asks = hybrid_asks,
	.state = state_size,
};
