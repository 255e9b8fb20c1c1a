/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Delayed-input DFA: which of a set of patterns occur in a stream of bytes.
 * Kumar, Dharmapurikar, Yu, Crowley, Turner: "Algorithms to Accelerate Multiple Regular
 * Expressions Matching for Deep Packet Inspection", SIGCOMM 2006.
 *
 * A state stores the transitions in which it differs from its default state, which
 * is asked for the others without taking a byte. The compiler bounds how many defaults
 * follow each other. internal/subsystem/fastpath/automaton builds the image and describes the records.
 *
 * The caller keeps a struct d2fa_run per stream, so that a pattern is found across
 * packets, and a bitmap with a bit per pattern, which is what an answer is.
 * A pattern's bit is set when the first of its occurrences ends.
 *
 *	d2fa_begin(table, &run, found);
 *	d2fa_feed(table, &run, bytes, length, found);   as often as there are bytes
 *	d2fa_finish(table, &run, found);                when the stream has ended
 *
 * eBPF programs call d2fa_step for each byte in a loop of their own, which checks the packet's bounds.
 */
#ifndef MINNE_D2FA_H
#define MINNE_D2FA_H

#include "algo.h"

/* Bounds of loops. An includer may set smaller ones and refuses images that need more (d2fa_fits). */
#ifndef D2FA_GROUPS
#define D2FA_GROUPS 64 /* automata that are run together; a power of two */
#endif
#ifndef D2FA_DEFAULTS
#define D2FA_DEFAULTS 8 /* default transitions for one byte */
#endif
#ifndef D2FA_REPORTS
#define D2FA_REPORTS 4096 /* patterns that one state finds */
#endif

/* Words of the header. */
#define D2FA_HEAD_PATTERNS (ALGO_HEAD_OWN + 0)
#define D2FA_HEAD_GROUPS (ALGO_HEAD_OWN + 1)
#define D2FA_HEAD_TABLE (ALGO_HEAD_OWN + 2)
#define D2FA_HEAD_DEFAULTS (ALGO_HEAD_OWN + 3)
#define D2FA_HEAD_REPORTS (ALGO_HEAD_OWN + 4)

/* Words of a group's entry. */
#define D2FA_GROUP_CLASSES 0
#define D2FA_GROUP_START 1
#define D2FA_GROUP_WORDS 4

/* The word that tells a state; 0 leads nowhere. */
#define D2FA_FINDS 0x80000000U
#define D2FA_AT_END 0x40000000U
#define D2FA_KIND(state) ((state) >> 28 & 3)
#define D2FA_PLACE(state) ((state) & 0x0fffffffU)
#define D2FA_ROW 0
#define D2FA_LIST 1

/* A search under way: the state of each group. */
struct d2fa_run {
	algo_u32 state[D2FA_GROUPS];
};

/* The caller's bitmap of patterns: a power of two of words. */
struct d2fa_found {
	algo_u32 *words;
	algo_u32 mask; /* words, minus 1 */
};

/* d2fa_fits tells whether an image's D²FA keeps to the bounds that this was compiled with. */
ALGO_INLINE int d2fa_fits(struct algo_table t, struct d2fa_found found)
{
	return algo_word(t, D2FA_HEAD_GROUPS) <= D2FA_GROUPS && algo_word(t, D2FA_HEAD_DEFAULTS) <= D2FA_DEFAULTS &&
	       algo_word(t, D2FA_HEAD_REPORTS) <= D2FA_REPORTS &&
	       (algo_u64)algo_word(t, D2FA_HEAD_PATTERNS) <= ((algo_u64)found.mask + 1) * 32;
}

ALGO_INLINE algo_u32 d2fa_groups(struct algo_table t)
{
	algo_u32 n = algo_word(t, D2FA_HEAD_GROUPS);

	return n > D2FA_GROUPS ? D2FA_GROUPS : n;
}

/* d2fa_group is where a group's entry is. */
ALGO_INLINE algo_u32 d2fa_group(struct algo_table t, algo_u32 group)
{
	return algo_word(t, D2FA_HEAD_TABLE) + group * D2FA_GROUP_WORDS;
}

/* d2fa_next is the state that a class of bytes leads to. */
ALGO_INLINE algo_u32 d2fa_next(struct algo_table t, algo_u32 state, algo_u32 class)
{
	int i;

	for (i = 0; i <= D2FA_DEFAULTS; i++) {
		algo_u32 at = D2FA_PLACE(state), first;

		if (D2FA_KIND(state) == D2FA_ROW)
			return algo_word(t, at + class);
		first = algo_word(t, at);
		if (D2FA_KIND(state) == D2FA_LIST) {
			/* Up to four classes, a byte each; the other bytes repeat the first. */
			if ((first & 0xff) == class)
				return algo_word(t, at + 2);
			if ((first >> 8 & 0xff) == class)
				return algo_word(t, at + 3);
			if ((first >> 16 & 0xff) == class)
				return algo_word(t, at + 4);
			if (first >> 24 == class)
				return algo_word(t, at + 5);
			state = algo_word(t, at + 1);
		} else {
			/* Of each 32 classes a bitmap and where in the record their transitions begin. */
			algo_u32 part = at + 1 + 2 * (class >> 5), map = algo_word(t, part), bit = 1U << (class & 31);

			if (map & bit)
				return algo_word(t, at + algo_word(t, part + 1) + algo_ones(map & (bit - 1)));
			state = first;
		}
	}
	return 0; /* more defaults than allowed: only in a broken image */
}

/* d2fa_reports finds the list of what a state finds: where it begins and how long it is. */
ALGO_INLINE algo_u32 d2fa_reports(struct algo_table t, algo_u32 state, int end, algo_u32 *count)
{
	algo_u32 list = algo_word(t, D2FA_PLACE(state) - 1), counts = algo_word(t, list);

	*count = end ? counts >> 16 : counts & 0xffff;
	return list + 1 + (end ? counts & 0xffff : 0);
}

ALGO_INLINE void d2fa_mark(struct d2fa_found found, algo_u32 pattern)
{
	found.words[pattern >> 5 & found.mask] |= 1U << (pattern & 31);
}

/* d2fa_report marks what a state finds, or, at the end of the stream, what it finds then. */
ALGO_INLINE void d2fa_report(struct algo_table t, algo_u32 state, int end, struct d2fa_found found)
{
	algo_u32 i, count, list;

	if (!(state & (end ? D2FA_AT_END : D2FA_FINDS)))
		return;
	list = d2fa_reports(t, state, end, &count);
	for (i = 0; i < D2FA_REPORTS && i < count; i++)
		d2fa_mark(found, algo_word(t, list + i));
}

/* d2fa_step takes one byte in a group: it returns the state behind it and marks what that finds. */
ALGO_INLINE algo_u32 d2fa_step(struct algo_table t, algo_u32 classes, algo_u32 state, algo_u8 byte, struct d2fa_found found)
{
	if (!state)
		return 0;
	state = d2fa_next(t, state, algo_word(t, classes + byte));
	d2fa_report(t, state, 0, found);
	return state;
}

/* d2fa_start is the state of a group before the first byte; it marks what the empty stream matches. */
ALGO_INLINE algo_u32 d2fa_start(struct algo_table t, algo_u32 group, struct d2fa_found found)
{
	algo_u32 state = algo_word(t, d2fa_group(t, group) + D2FA_GROUP_START);

	d2fa_report(t, state, 0, found);
	return state;
}

#ifndef __bpf__

ALGO_INLINE void d2fa_begin(struct algo_table t, struct d2fa_run *run, struct d2fa_found found)
{
	algo_u32 g, groups = d2fa_groups(t);

	for (g = 0; g < groups; g++)
		run->state[g] = d2fa_start(t, g, found);
}

ALGO_INLINE void d2fa_feed(struct algo_table t, struct d2fa_run *run, const algo_u8 *data, algo_u32 length, struct d2fa_found found)
{
	algo_u32 g, i, groups = d2fa_groups(t);

	for (g = 0; g < groups; g++) {
		algo_u32 state = run->state[g], classes = algo_word(t, d2fa_group(t, g) + D2FA_GROUP_CLASSES);

		for (i = 0; i < length && state; i++)
			state = d2fa_step(t, classes, state, data[i], found);
		run->state[g] = state;
	}
}

ALGO_INLINE void d2fa_finish(struct algo_table t, struct d2fa_run *run, struct d2fa_found found)
{
	algo_u32 g, groups = d2fa_groups(t);

	for (g = 0; g < groups; g++)
		d2fa_report(t, run->state[g], 1, found);
}

#endif

#endif
