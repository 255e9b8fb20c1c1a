/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The structures that the router forwards by, to compare with: range table and DIR-24-8 for
 * IPv4, staged16 for IPv6. Answers are next-hop indices, 0 for "the kernel decides".
 */
#include "procbench.h"
#include "addresses.h"

#include "algo/fib_native.h"

#define OPEN const algo_u32 *a = w->set->data; fib_native_open4(w->table->words, w->table->view.mask + 1, STRUCTURE, w->table->root_bits)
#define OPEN6 const struct algo_address6 *a = w->set->data; fib_native_open6(w->table->words, w->table->view.mask + 1)

#define STRUCTURE FIB4_RANGE
EACH_WAY(range, OPEN, fib4_lookup(a[i]))
#undef STRUCTURE
#define STRUCTURE FIB4_DIRECT24
EACH_WAY(direct24, OPEN, fib4_lookup(a[i]))
EACH_WAY(staged16, OPEN6, fib6_lookup(a[i].hi, a[i].lo))

static const char *other = "it is a table of another algorithm";

static const char *range_fits(const struct table *t, const struct set *s)
{
	if (t->structure != ROUTER_RANGE)
		return other;
	/* The word behind the root is the default route's. */
	if (t->root_bits < 8 || t->root_bits > 24 || (1U << t->root_bits) >= t->view.mask)
		return "its header tells of a root that does not fit";
	return addresses_fit(4, s);
}

static const char *direct24_fits(const struct table *t, const struct set *s)
{
	if (t->structure != ROUTER_DIRECT24)
		return other;
	if (t->view.mask + 1 != ROUTER_DIRECT24_WORDS)
		return "its header tells of another size than DIR-24-8 has";
	return addresses_fit(4, s);
}

static const char *staged16_fits(const struct table *t, const struct set *s)
{
	if (t->structure != ROUTER_STAGED16)
		return other;
	if (t->view.mask < 1U << FIB6_ROOT_BITS)
		return "its header tells of a root that does not fit";
	return addresses_fit(6, s);
}

static void prepare4(const struct table *t, struct set *s)
{
	(void)t;
	addresses_prepare(4, s);
}

static void prepare6(const struct table *t, struct set *s)
{
	(void)t;
	addresses_prepare(6, s);
}

static const struct asking *range_asks(const struct table *t, const struct set *s)
{
	static const struct asking asking = { range_answer, { WAYS(range) } };

	(void)t;
	(void)s;
	return &asking;
}

static const struct asking *direct24_asks(const struct table *t, const struct set *s)
{
	static const struct asking asking = { direct24_answer, { WAYS(direct24) } };

	(void)t;
	(void)s;
	return &asking;
}

static const struct asking *staged16_asks(const struct table *t, const struct set *s)
{
	static const struct asking asking = { staged16_answer, { WAYS(staged16) } };

	(void)t;
	(void)s;
	return &asking;
}

const struct algorithm range_algorithm = {
	.name = "range",
	.fits = range_fits,
	.prepare = prepare4,
	.asks = range_asks,
};

const struct algorithm direct24_algorithm = {
	.name = "direct24",
	.fits = direct24_fits,
	.prepare = prepare4,
	.asks = direct24_asks,
};

const struct algorithm staged16_algorithm = {
	.name = "staged16",
	.fits = staged16_fits,
	.prepare = prepare6,
	.asks = staged16_asks,
};
