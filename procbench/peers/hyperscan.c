/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Hyperscan, or Vectorscan, which has the same interface: which patterns occur in each record. Patterns are written as
 * PCRE has them.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hs.h>

const char *const peer_program = "minne-peer-hyperscan";

const char *peer_version(void)
{
	static char version[64];

	snprintf(version, sizeof(version), "Hyperscan %s", hs_version());
	version[strlen(version) - strlen(strchr(version + 10, ' ') ? strchr(version + 10, ' ') : "")] = 0;
	return version;
}

void peer_begin(int huge)
{
	if (huge)
		peer_refuse("--huge", "Hyperscan has its own memory");
}

/* The patterns of a table, as the library wants them. */
static const char **expressions;
static unsigned *flags, *numbers, count, room;
static size_t *lengths;
static int all_literal = 1;

static hs_database_t *database;
static hs_scratch_t *scratch;

/* escaped is a byte string as an expression. */
static char *escaped(const char *bytes, size_t length)
{
	char *out = peer_allocate(4 * length + 1, 0);

	for (size_t i = 0; i < length; i++)
		snprintf(out + 4 * i, 5, "\\x%02x", (unsigned char)bytes[i]);
	return out;
}

static unsigned flags_of(const char *text)
{
	unsigned set = HS_FLAG_SINGLEMATCH;

	for (; *text && *text != ' '; text++) {
		set |= *text == 'i' ? HS_FLAG_CASELESS : 0;
		set |= *text == 's' ? HS_FLAG_DOTALL : 0;
		set |= *text == 'm' ? HS_FLAG_MULTILINE : 0;
	}
	return set;
}

static void take_pattern(char *line, unsigned at)
{
	const char *text, *bytes;
	char *copy;
	size_t length;

	(void)at;
	if (count == room) {
		room = room ? room * 2 : 1024;
		expressions = realloc(expressions, room * sizeof(*expressions));
		flags = realloc(flags, room * sizeof(*flags));
		numbers = realloc(numbers, room * sizeof(*numbers));
		lengths = realloc(lengths, room * sizeof(*lengths));
		if (!expressions || !flags || !numbers || !lengths)
			peer_refuse("memory", "none for patterns");
	}
	length = peer_pattern(line, &numbers[count], &text, &bytes);
	flags[count] = flags_of(text);
	lengths[count] = length;
	if (*text == 'l') {
		copy = peer_allocate(length + 1, 0);
		memcpy(copy, bytes, length + 1);
	} else {
		if (strlen(bytes) != length)
			peer_refuse("pattern", "number %u has a byte 0 in its text", numbers[count]);
		all_literal = 0;
		copy = strdup(bytes);
		lengths[count] = 0;
	}
	expressions[count++] = copy;
}

/* read_patterns reads the table; byte strings among regular expressions become such. */
static void read_patterns(const char *file)
{
	peer_lines(file, take_pattern);
	if (!count)
		peer_refuse(file, "no patterns");
	for (unsigned i = 0; !all_literal && i < count; i++)
		if (lengths[i])
			expressions[i] = escaped(expressions[i], lengths[i]);
}

static size_t build(const char *file)
{
	hs_compile_error_t *error = 0;
	hs_error_t result;
	size_t bytes, more;

	read_patterns(file);
	if (all_literal)
		result = hs_compile_lit_multi(expressions, flags, numbers, lengths, count, HS_MODE_BLOCK, 0, &database, &error);
	else
		result = hs_compile_multi(expressions, flags, numbers, count, HS_MODE_BLOCK, 0, &database, &error);
	if (result != HS_SUCCESS)
		peer_refuse(file, "pattern %u: %s", error->expression < 0 ? 0 : numbers[error->expression], error->message);
	if (hs_alloc_scratch(database, &scratch) || hs_database_size(database, &bytes) || hs_scratch_size(scratch, &more))
		peer_refuse("memory", "none for a search");
	return bytes + more;
}

static void check(const char *file)
{
	read_patterns(file);
	for (unsigned i = 0; i < count; i++) {
		hs_compile_error_t *error = 0;

		if (all_literal)
			return; /* all of them can be searched for */
		if (hs_compile(expressions[i], flags[i], HS_MODE_BLOCK, 0, &database, &error) != HS_SUCCESS) {
			printf("%u %s\n", numbers[i], error->message);
			hs_free_compile_error(error);
			continue;
		}
		hs_free_database(database);
	}
}

/* What is found in a record. */
struct found {
	algo_u32 sum;
	algo_u32 *bits; /* null: only the sum */
};

static int seen(unsigned number, unsigned long long from, unsigned long long to, unsigned how, void *context)
{
	struct found *f = context;

	(void)from;
	(void)to;
	(void)how;
	f->sum += number + 1;
	if (f->bits)
		f->bits[number / 32] |= 1U << number % 32;
	return 0;
}

static algo_u32 stream(const struct peer_work *w)
{
	unsigned words = numbers[count - 1] / 32 + 1;
	struct found f = { 0, w->sum ? peer_allocate(words * 4UL, 0) : 0 };
	const unsigned char *record = w->set->data;

	for (size_t i = 0; i < w->count; i++) {
		algo_u32 length = *(const algo_u32 *)(const void *)record;

		if (f.bits)
			memset(f.bits, 0, words * 4UL);
		if (hs_scan(database, (const char *)record + 4, length, 0, scratch, seen, &f) != HS_SUCCESS)
			peer_refuse("hs_scan", "it failed at record %lu", (unsigned long)i);
		for (unsigned n = 0; f.bits && n < words * 32; n++)
			if (f.bits[n / 32] >> n % 32 & 1)
				algo_checksum_add(w->sum, n);
		if (w->sum)
			algo_checksum_add(w->sum, 0xffffffffU);
		record += 4 + ((size_t)length + 3) / 4 * 4;
	}
	free(f.bits);
	return f.sum;
}

static const struct peer_algorithm algorithm = { .name = "hyperscan", .build = build, .check = check, .ways = { { "stream", stream } } };

const struct peer_algorithm *const peer_algorithms[] = { &algorithm, 0 };
