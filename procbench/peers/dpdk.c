/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * DPDK's tables for longest prefix match: rte_fib (DIR-24-8; Gupta, Lin, McKeown, INFOCOM 1998) with next hops of 2 and of 4 bytes,
 * rte_lpm, and rte_fib6's trie. It needs neither huge pages nor privileges: --no-huge. Only the memory
 * that lookups read is counted, not the tree of rules beside it.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_lpm.h>
#include <rte_memory.h>
#include <rte_version.h>

#define BURST 64 /* addresses of a bulk lookup */
#define ROOT 24
#define GROUP 256 /* entries of a second table */
#define SLAB 64   /* second tables are counted in so many */
#define HUGE_PAGE ((size_t)2 << 20)

const char *const peer_program = "minne-peer-dpdk";

const char *peer_version(void) { return rte_version(); }

/* in_huge_pages puts DPDK's own memory, as it is now, into huge pages that nobody has to reserve. */
static int in_huge_pages(const struct rte_memseg_list *list, void *argument)
{
	char *whole = mmap(0, list->len + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *copy = (char *)(((uintptr_t)whole + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);

	(void)argument;
	if (whole == MAP_FAILED || madvise(copy, list->len, MADV_HUGEPAGE))
		return -1;
	memcpy(copy, list->base_va, list->len);
	return mremap(copy, list->len, list->len, MREMAP_MAYMOVE | MREMAP_FIXED, list->base_va) == MAP_FAILED ? -1 : 0;
}

void peer_begin(int huge)
{
	static char *arguments[] = {
		"minne-peer-dpdk", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry", "--log-level=critical", "-m", "1024",
		"--base-virtaddr=0x100000000000", "--force-max-simd-bitwidth=512", 0,
	};

	if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]) - 1, arguments) < 0)
		peer_refuse("DPDK", "rte_eal_init: %s", rte_strerror(rte_errno));
	if (huge && rte_memseg_list_walk(in_huge_pages, 0))
		peer_refuse("DPDK", "no huge pages");
}

/* The routes of the file: first they are counted, then added. */
struct route {
	unsigned char address[16];
	uint32_t hop;
	int bits;
};

static struct route *routes;
static size_t route_count, route_room;
static int route_family;

static void take_route(char *line, unsigned number)
{
	struct route *r;

	(void)number;
	if (route_count == route_room) {
		route_room = route_room ? route_room * 2 : 1 << 16;
		routes = realloc(routes, route_room * sizeof(*routes));
		if (!routes)
			peer_refuse("memory", "none for routes");
	}
	r = &routes[route_count++];
	r->bits = peer_route(line, route_family, r->address, &r->hop);
}

static uint32_t number_of(const unsigned char *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void read_routes(const char *file, int family)
{
	route_family = family;
	peer_lines(file, take_route);
	if (!route_count)
		peer_refuse(file, "no routes");
}

/* groups4 is how many second tables the routes need: one for each /24 with longer prefixes. */
static uint32_t groups4(void)
{
	unsigned char *seen = calloc(1, (1 << ROOT) / 8);
	uint32_t count = 0;

	if (!seen)
		peer_refuse("memory", "none");
	for (size_t i = 0; i < route_count; i++) {
		uint32_t at = number_of(routes[i].address) >> 8;

		if (routes[i].bits > ROOT && !(seen[at / 8] >> (at % 8) & 1)) {
			seen[at / 8] |= (unsigned char)(1 << at % 8);
			count++;
		}
	}
	free(seen);
	return (count + SLAB) / SLAB * SLAB;
}

static struct rte_fib *fib;
static struct rte_fib6 *fib6;
static struct rte_lpm *lpm;

static size_t build_fib(const char *file, enum rte_fib_dir24_8_nh_sz size)
{
	struct rte_fib_conf conf = { .type = RTE_FIB_DIR24_8 };

	read_routes(file, 4);
	conf.max_routes = (int)route_count * 2; /* with the inner nodes of its tree of rules */
	conf.dir24_8.nh_sz = size;
	conf.dir24_8.num_tbl8 = groups4();
	fib = rte_fib_create("peer", SOCKET_ID_ANY, &conf);
	if (!fib)
		peer_refuse("rte_fib_create", "%s", rte_strerror(rte_errno));
	for (size_t i = 0; i < route_count; i++) {
		int error = rte_fib_add(fib, number_of(routes[i].address), (uint8_t)routes[i].bits, routes[i].hop);

		if (error)
			peer_refuse("rte_fib_add", "route %lu: %s", (unsigned long)i + 1, rte_strerror(-error));
	}
	return ((1UL << ROOT) + (conf.dir24_8.num_tbl8 + 1UL) * GROUP) << size;
}

static size_t build_fib2(const char *file) { return build_fib(file, RTE_FIB_DIR24_8_2B); }
static size_t build_fib4(const char *file) { return build_fib(file, RTE_FIB_DIR24_8_4B); }

static int longer_first(const void *a, const void *b)
{
	return ((const struct route *)b)->bits - ((const struct route *)a)->bits;
}

static size_t build_lpm(const char *file)
{
	struct rte_lpm_config conf = { 0 };

	read_routes(file, 4);
	qsort(routes, route_count, sizeof(*routes), longer_first);
	conf.max_rules = (uint32_t)route_count;
	conf.number_tbl8s = groups4();
	lpm = rte_lpm_create("peer", SOCKET_ID_ANY, &conf);
	if (!lpm)
		peer_refuse("rte_lpm_create", "%s", rte_strerror(rte_errno));
	for (size_t i = 0; i < route_count; i++) {
		int error = routes[i].bits ? rte_lpm_add(lpm, number_of(routes[i].address), (uint8_t)routes[i].bits, routes[i].hop) : -EINVAL;

		if (error)
			peer_refuse("rte_lpm_add", "route %lu: %s", (unsigned long)i + 1, rte_strerror(-error));
	}
	return sizeof(*lpm) + conf.number_tbl8s * (size_t)GROUP * sizeof(*lpm->tbl8);
}

static int covers(const struct route *a, const struct route *b)
{
	int bytes = a->bits / 8, rest = a->bits % 8;

	return a->bits < b->bits && !memcmp(a->address, b->address, (size_t)bytes) &&
	       (!rest || !((a->address[bytes] ^ b->address[bytes]) >> (8 - rest)));
}

/* groups6 bounds how many second tables rte_fib6 sets aside: for each route, one for each byte from the end of the next shorter
 * prefix around it, or the third byte, to its own end. Routes must be sorted. */
static uint32_t groups6(void)
{
	const struct route *around[129];
	uint32_t count = 0;
	int depth = 0;

	for (size_t i = 0; i < route_count; i++) {
		int from = 3, to = (routes[i].bits + 7) / 8;

		while (depth && !covers(around[depth - 1], &routes[i]))
			depth--;
		if (depth && (around[depth - 1]->bits + 7) / 8 > from)
			from = (around[depth - 1]->bits + 7) / 8;
		if (to > from)
			count += (uint32_t)(to - from);
		around[depth++] = &routes[i];
	}
	return (count + SLAB) / SLAB * SLAB;
}

static int by_address(const void *a, const void *b)
{
	const struct route *x = a, *y = b;
	int order = memcmp(x->address, y->address, 16);

	return order ? order : x->bits - y->bits;
}

static size_t build_fib6(const char *file)
{
	struct rte_fib6_conf conf = { .type = RTE_FIB6_TRIE };

	read_routes(file, 6);
	qsort(routes, route_count, sizeof(*routes), by_address);
	conf.max_routes = (int)route_count * 2;
	conf.trie.nh_sz = RTE_FIB6_TRIE_2B;
	conf.trie.num_tbl8 = groups6();
	if (conf.trie.num_tbl8 > 32767)
		conf.trie.nh_sz = RTE_FIB6_TRIE_4B; /* entries also count second tables */
	fib6 = rte_fib6_create("peer", SOCKET_ID_ANY, &conf);
	if (!fib6)
		peer_refuse("rte_fib6_create", "%s", rte_strerror(rte_errno));
	for (size_t i = 0; i < route_count; i++) {
		int error = rte_fib6_add(fib6, routes[i].address, (uint8_t)routes[i].bits, routes[i].hop);

		if (error)
			peer_refuse("rte_fib6_add", "route %lu: %s", (unsigned long)i + 1, rte_strerror(-error));
	}
	return ((1UL << ROOT) + (conf.trie.num_tbl8 + 1UL) * GROUP) << conf.trie.nh_sz;
}

/* prepare4 turns addresses into numbers. */
static void prepare4(struct peer_set *s)
{
	for (size_t i = 0; i < s->count; i++) {
		uint32_t n = number_of(s->data + 4 * i);

		memcpy(s->data + 4 * i, &n, 4);
	}
}

static algo_u32 tell(const uint64_t *hops, unsigned n, struct algo_checksum *sum)
{
	algo_u32 all = 0;

	for (unsigned i = 0; i < n; i++)
		all += (algo_u32)hops[i];
	for (unsigned i = 0; sum && i < n; i++)
		algo_checksum_add(sum, (algo_u32)hops[i]);
	return all;
}

static algo_u32 ask_fib(const struct peer_work *w)
{
	uint32_t *keys = (uint32_t *)w->set->data;
	uint64_t hops[BURST];
	algo_u32 all = 0;

	for (size_t i = 0; i < w->count; i += BURST) {
		unsigned n = w->count - i < BURST ? (unsigned)(w->count - i) : BURST;

		rte_fib_lookup_bulk(fib, keys + i, hops, (int)n);
		all += tell(hops, n, w->sum);
	}
	return all;
}

static algo_u32 ask_fib_scalar(const struct peer_work *w)
{
	rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO);
	return ask_fib(w);
}

static algo_u32 ask_fib_vector(const struct peer_work *w)
{
	if (rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512))
		rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DEFAULT); /* a CPU without it */
	return ask_fib(w);
}

static algo_u32 ask_fib6(const struct peer_work *w)
{
	uint64_t hops[BURST];
	algo_u32 all = 0;

	for (size_t i = 0; i < w->count; i += BURST) {
		unsigned n = w->count - i < BURST ? (unsigned)(w->count - i) : BURST;

		rte_fib6_lookup_bulk(fib6, (uint8_t(*)[16])(void *)(w->set->data + 16 * i), hops, (int)n);
		all += tell(hops, n, w->sum);
	}
	return all;
}

static algo_u32 ask_fib6_scalar(const struct peer_work *w)
{
	rte_fib6_select_lookup(fib6, RTE_FIB6_LOOKUP_TRIE_SCALAR);
	return ask_fib6(w);
}

static algo_u32 ask_fib6_vector(const struct peer_work *w)
{
	if (rte_fib6_select_lookup(fib6, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512))
		rte_fib6_select_lookup(fib6, RTE_FIB6_LOOKUP_DEFAULT);
	return ask_fib6(w);
}

static algo_u32 ask_lpm(const struct peer_work *w)
{
	const uint32_t *keys = (const uint32_t *)w->set->data;
	algo_u32 all = 0;

	for (size_t i = 0; i < w->count; i++) {
		uint32_t hop;

		if (rte_lpm_lookup(lpm, keys[i], &hop))
			hop = 0;
		all += hop;
		if (w->sum)
			algo_checksum_add(w->sum, hop);
	}
	return all;
}

static algo_u32 ask_lpm_bulk(const struct peer_work *w)
{
	const uint32_t *keys = (const uint32_t *)w->set->data;
	uint32_t hops[BURST];
	algo_u32 all = 0;

	for (size_t i = 0; i < w->count; i += BURST) {
		unsigned n = w->count - i < BURST ? (unsigned)(w->count - i) : BURST;

		rte_lpm_lookup_bulk(lpm, keys + i, hops, n);
		for (unsigned j = 0; j < n; j++)
			all += hops[j] & RTE_LPM_LOOKUP_SUCCESS ? hops[j] & 0xffffff : 0;
	}
	return all;
}

static const struct peer_algorithm fib2_algorithm = {
	"rte_fib-2", 4, build_fib2, prepare4, { { "batched", ask_fib_scalar }, { "batched-avx512", ask_fib_vector } }, 0,
};
static const struct peer_algorithm fib4_algorithm = {
	"rte_fib-4", 4, build_fib4, prepare4, { { "batched", ask_fib_scalar }, { "batched-avx512", ask_fib_vector } }, 0,
};
static const struct peer_algorithm lpm_algorithm = {
	"rte_lpm", 4, build_lpm, prepare4, { { "independent", ask_lpm }, { "batched", ask_lpm_bulk } }, 0,
};
static const struct peer_algorithm fib6_algorithm = {
	"rte_fib6", 16, build_fib6, 0, { { "batched", ask_fib6_scalar }, { "batched-avx512", ask_fib6_vector } }, 0,
};

const struct peer_algorithm *const peer_algorithms[] = { &fib2_algorithm, &fib4_algorithm, &lpm_algorithm, &fib6_algorithm, 0 };
