/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What the peers of minne-procbench share: programs that ask another project's library the same keys, and sum its
 * answers up in the same way, so that both can be compared in one run.
 *
 *	minne-peer-NAME [--cpu N] [--hot N] [--huge] ALGORITHM TABLE KEYS|PAYLOAD...
 *	minne-peer-NAME --check ALGORITHM TABLE     the numbers of patterns that the library refuses, and why
 *	minne-peer-NAME --version
 *
 * Keys and payload are files as procbench/load.c reads them. A table is text, for each library to build its own
 * structure from:
 *
 *	routes    "PREFIX NUMBER", one a line; NUMBER, from 1 on, is what a lookup answers (0: no route)
 *	patterns  "NUMBER FLAGS HEX", ascending by number: a regular expression in hexadecimal digits; flags are
 *	          l for a byte string instead, of i, s, m as in PCRE, or "-"
 *	keys      a file of keys as above, those that a filter has
 *
 * Tables take long to build. So the program builds its table once, says what it has answered (a line of JSON), and waits: for
 * each line with a number of seconds on its standard input it measures every way to ask, about so long each, and prints a line of
 * JSON. Whoever runs it can have it take turns with other programs. It ends with its input.
 */
#ifndef MINNE_PEER_H
#define MINNE_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "algo/checksum.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PEER_SETS 8
#define PEER_WAYS 4

/* A set of keys, or a payload. */
struct peer_set {
	unsigned char *data;
	size_t count;    /* keys, or records of payload */
	uint64_t length; /* payload: bytes of all records */
	uint32_t key;    /* bytes of a key; 0: a payload */
	uint32_t stride; /* bytes from one key to the next */
};

/* What a pass goes through: the first keys of a set. */
struct peer_work {
	const struct peer_set *set;
	size_t count;
	struct algo_checksum *sum; /* of all answers, when it is asked for */
};

/* A pass asks for each key once and returns a sum of the answers that is the same each time. */
typedef algo_u32 (*peer_pass)(const struct peer_work *);

struct peer_way {
	const char *order; /* as minne-procbench has it: independent, dependent, batched, stream; or the peer's own */
	peer_pass run;
};

struct peer_algorithm {
	const char *name;
	uint32_t key; /* bytes of its keys; 0: payload */
	/* build makes the table from a file, and returns the bytes of what lookups need of it. */
	size_t (*build)(const char *file);
	/* prepare turns keys as they were read into what the library takes; may be null. */
	void (*prepare)(struct peer_set *);
	/* Without a name: none. Each must give the same answers. */
	struct peer_way ways[PEER_WAYS];
	/* check prints what of a table the library refuses, one a line; may be null. */
	void (*check)(const char *file);
};

/* A program defines these. */
extern const char *const peer_program;
extern const struct peer_algorithm *const peer_algorithms[]; /* ends with null */
const char *peer_version(void);
void peer_begin(int huge); /* before anything else */

/* peer.c */
__attribute__((noreturn, format(printf, 2, 3))) void peer_refuse(const char *what, const char *why, ...);
void *peer_allocate(size_t bytes, int huge);
/* peer_lines hands each line of a text file to take, with its number, without its end. */
void peer_lines(const char *file, void (*take)(char *line, unsigned number));
/* peer_route reads a line of routes. It returns the prefix's length; the address goes to network byte order. */
int peer_route(char *line, int family, unsigned char address[16], uint32_t *hop);
/* peer_pattern reads a line of patterns: the number, flags, and the bytes, which take the line's place. */
size_t peer_pattern(char *line, unsigned *number, const char **flags, const char **bytes);

#ifdef __cplusplus
}
#endif

#endif
