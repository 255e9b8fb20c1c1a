/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What the parts of minne-procbench share: a table, the sets of keys that it is asked for,
 * and the algorithms that can be measured with them.
 */
#ifndef MINNE_PROCBENCH_H
#define MINNE_PROCBENCH_H

#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "algo/checksum.h"

#define MOST_SETS 8

/* What the header of a router's table says of its structure. */
#define ROUTER_RANGE 0
#define ROUTER_DIRECT24 1
#define ROUTER_STAGED16 2

#define ROUTER_DIRECT24_WORDS (3U << 22)

/* A table image in memory. */
struct table {
	struct algo_table view;
	algo_u32 *words; /* the same, to be written */
	size_t bytes;    /* that were allocated */
	int turned;      /* it was made for a CPU of the other byte order */
	algo_u32 structure, root_bits; /* the router's own only */
};

/* Where keys come from, as their file tells. */
enum origin { ORIGIN_UNKNOWN, ORIGIN_RANDOM, ORIGIN_IN_TABLE };

/* A set of keys, or a payload. */
struct set {
	void *data;
	size_t bytes;    /* that were allocated */
	size_t count;    /* keys, or records of payload */
	uint64_t length; /* payload: bytes of all records */
	algo_u32 key;    /* bytes of a key; 0: a payload */
	algo_u32 stride; /* bytes from one key to the next */
	algo_u32 origin;
};

/* What a pass goes through. */
struct work {
	const struct table *table;
	const struct set *set;
	size_t count;              /* keys or records, from the beginning of the set */
	size_t zero;               /* 0, which the compiler does not know */
	struct algo_checksum *sum; /* of all answers, when it is asked for */
	void *state;               /* of algorithms that need some */
};

/* A pass asks the table for each key once and returns a sum of all answers, which
 * must be the same each time. */
typedef algo_u32 (*pass)(const struct work *);

/* A way to go through keys. */
struct way {
	const char *name;
	pass run;
};

#define MOST_WAYS 4

/* What is asked of a table with keys of some length. Ways without a name don't exist. */
struct asking {
	pass answer; /* puts each answer into work.sum */
	struct way ways[MOST_WAYS];
};

struct algorithm {
	const char *name;
	algo_u32 kind; /* of image; 0: the router's own structures */
	int payload;   /* it takes a payload instead of keys */
	/* fits tells what is wrong with a table or a set of keys for it, or returns null. */
	const char *(*fits)(const struct table *, const struct set *);
	/* prepare turns keys as they were read into what is asked for; may be null. */
	void (*prepare)(const struct table *, struct set *);
	const struct asking *(*asks)(const struct table *, const struct set *);
	/* state is how much memory passes need, in bytes, filled with zeros at first; may be null. */
	size_t (*state)(const struct table *);
};

extern const struct algorithm *const algorithms[]; /* ends with null */
const struct algorithm *algorithm_named(const char *name); /* or null */
extern const struct algorithm bloom_algorithm, counting_algorithm, tree_bitmap_algorithm, shape_shifting_algorithm,
	d2fa_algorithm, hybrid_algorithm, range_algorithm, direct24_algorithm, staged16_algorithm;

/* EACH_WAY defines the passes over keys of which one is asked for by an expression of i, and NAME_asking: one lookup beside
 * another, or each key only known when the last answer is. SETUP comes before the loop. */
#define EACH_WAY(NAME, SETUP, ASK)                                              \
	static algo_u32 NAME##_answer(const struct work *w)                     \
	{                                                                       \
		SETUP;                                                          \
		algo_u32 sum = 0;                                               \
		for (size_t i = 0; i < w->count; i++) {                         \
			algo_u32 answer = ASK;                                  \
			algo_checksum_add(w->sum, answer);                      \
			sum += answer;                                          \
		}                                                               \
		return sum;                                                     \
	}                                                                       \
	static algo_u32 NAME##_independent(const struct work *w)                \
	{                                                                       \
		SETUP;                                                          \
		algo_u32 sum = 0;                                               \
		for (size_t i = 0; i < w->count; i++)                           \
			sum += ASK;                                             \
		return sum;                                                     \
	}                                                                       \
	static algo_u32 NAME##_dependent(const struct work *w)                  \
	{                                                                       \
		SETUP;                                                          \
		algo_u32 sum = 0, answer = 0;                                   \
		for (size_t n = 0; n < w->count; n++) {                         \
			size_t i = n + (answer & w->zero);                      \
			answer = ASK;                                           \
			sum += answer;                                          \
		}                                                               \
		return sum;                                                     \
	}

#define WAYS(NAME) { "independent", NAME##_independent }, { "dependent", NAME##_dependent }

/* load.c: what can't be read ends the program with exit code 1. Files may be "-", standard input. */
void load_table(const char *file, const struct algorithm *a, int huge, struct table *t);
void load_set(const char *file, const struct algorithm *a, struct set *s);
void *allocate(size_t bytes, int huge);
void refuse(const char *file, const char *why);

/* measure.c */
struct figure {
	double median, low, high; /* ns per key, or per byte of payload; low and high: 95 % interval */
};

/* A configuration: a set of keys, gone through in one way. */
struct configuration {
	int set;
	const char *access; /* "hot" or "all" */
	const char *order;
	pass run;
	struct work work;
	double per_pass; /* keys, or bytes of payload */
	algo_u32 expected;
	double *ns; /* of each repetition */
	struct figure figure;
};

/* measure times configurations in turns, so many repetitions of so many seconds in all. It returns a configuration that
 * has answered otherwise than before, or null. */
const struct configuration *measure(struct configuration *list, int n, int repetitions, double seconds);

extern const char *measure_clock; /* "cpu" or "wall": what measure counted */

#endif
