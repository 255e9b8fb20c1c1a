/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Hybrid finite automaton: for sets of patterns whose .* and long counts make a DFA explode.
 * Becchi, Crowley: "A Hybrid Finite Automaton for Practical Deep Packet Inspection", CoNEXT 2007.
 *
 * The head is a D²FA (d2fa.h) up to the borders of patterns. When it comes to a border, the
 * tail there becomes active and takes each further byte, until it has died or found its
 * pattern. Most bytes are taken while no tail is active. A tail is a D²FA too, with one class
 * more, which means "the border again"; or an NFA of which each state is a bit.
 * internal/subsystem/fastpath/automaton builds the image and describes the records.
 *
 * Used as d2fa.h is: hybrid_begin, hybrid_feed, hybrid_finish; a struct hybrid_run per stream.
 * eBPF programs know no tails that are NFAs. Their verifier follows hybrid_step with small bounds only; with
 * others, loops of their own (bpf_loop) call hybrid_tail_step, d2fa_next and hybrid_take, as
 * bpf/automatonbench.bpf.c does.
 */
#ifndef MINNE_HYBRID_H
#define MINNE_HYBRID_H

#include "d2fa.h"

/* Bounds, powers of two. An includer may set smaller ones and refuses images that need more (hybrid_fits). */
#ifndef HYBRID_TAILS
#define HYBRID_TAILS 2048 /* tails of all groups */
#endif
#ifndef HYBRID_MEMORY
#define HYBRID_MEMORY 16384 /* words that the states of all tails take */
#endif
#ifndef HYBRID_TAIL_WORDS
#ifdef __bpf__
#define HYBRID_TAIL_WORDS 1 /* no tail is an NFA */
#else
#define HYBRID_TAIL_WORDS 128 /* of the state of one */
#endif
#endif

/* Words of the header behind those of a D²FA. */
#define HYBRID_HEAD_TAILS (ALGO_HEAD_OWN + 5)
#define HYBRID_HEAD_TABLE (ALGO_HEAD_OWN + 6)
#define HYBRID_HEAD_MEMORY (ALGO_HEAD_OWN + 7)
#define HYBRID_HEAD_BITS (ALGO_HEAD_OWN + 8) /* most words of a tail that is an NFA, 0 if there is none */

/* Words of a group's entry behind those of a D²FA. */
#define HYBRID_GROUP_FIRST 2
#define HYBRID_GROUP_TAILS 3

/* Words of a tail's entry. */
#define HYBRID_TAIL_PATTERN 0
#define HYBRID_TAIL_BITS 1
#define HYBRID_TAIL_CLASSES 2
#define HYBRID_TAIL_RECORD 3
#define HYBRID_TAIL_AGAIN 4
#define HYBRID_TAIL_PLACE 5
#define HYBRID_TAIL_ENTRY 8

/* What a head's state finds: a tail's number is marked. */
#define HYBRID_IS_TAIL 0x80000000U

/* A search under way. */
struct hybrid_run {
	algo_u32 head[D2FA_GROUPS];
	algo_u32 active[D2FA_GROUPS]; /* number of active tails of a group */
	algo_u32 list[HYBRID_TAILS];  /* which: each group's from its first tail on */
	algo_u32 state[HYBRID_MEMORY];
};

/* hybrid_fits tells whether an image keeps to the bounds that this was compiled with. */
ALGO_INLINE int hybrid_fits(struct algo_table t, struct d2fa_found found)
{
	return d2fa_fits(t, found) && algo_word(t, HYBRID_HEAD_TAILS) <= HYBRID_TAILS &&
	       algo_word(t, HYBRID_HEAD_MEMORY) <= HYBRID_MEMORY &&
	       (!algo_word(t, HYBRID_HEAD_BITS) ||
		(HYBRID_TAIL_WORDS > 1 && algo_word(t, HYBRID_HEAD_BITS) <= HYBRID_TAIL_WORDS));
}

ALGO_INLINE algo_u32 hybrid_tail(struct algo_table t, algo_u32 tail)
{
	return algo_word(t, HYBRID_HEAD_TABLE) + tail * HYBRID_TAIL_ENTRY;
}

ALGO_INLINE int hybrid_has(struct d2fa_found found, algo_u32 pattern)
{
	return found.words[pattern >> 5 & found.mask] >> (pattern & 31) & 1;
}

/* hybrid_word is a word of the tails' states. */
ALGO_INLINE algo_u32 *hybrid_word(struct hybrid_run *run, algo_u32 at)
{
	return &run->state[at & (HYBRID_MEMORY - 1)];
}

#if HYBRID_TAIL_WORDS > 1

/* Masks of an NFA's record, each of as many words as its state. */
#define HYBRID_BIT_ENTRY 0
#define HYBRID_BIT_MATCH 1
#define HYBRID_BIT_END 2
#define HYBRID_BIT_SHIFT 3
#define HYBRID_BIT_LOOP 4
#define HYBRID_BIT_EXCEPTION 5
#define HYBRID_BIT_BEFORE 6
#define HYBRID_BIT_AT 7

/* hybrid_bits_enter activates an NFA. It returns whether it was active. */
ALGO_INLINE int hybrid_bits_enter(struct algo_table t, struct hybrid_run *run, algo_u32 words, algo_u32 record, algo_u32 place)
{
	algo_u32 w, before = 0;

	for (w = 0; w < words && w < HYBRID_TAIL_WORDS; w++) {
		algo_u32 *state = hybrid_word(run, place + w);

		before |= *state;
		*state |= algo_word(t, record + HYBRID_BIT_ENTRY * words + w);
	}
	return before != 0;
}

/* hybrid_bits_step takes a byte's class in an NFA; found: its pattern is. It returns whether it is still active. */
ALGO_INLINE int hybrid_bits_step(struct algo_table t, struct hybrid_run *run, algo_u32 words, algo_u32 record, algo_u32 place,
				 algo_u32 class, int *match)
{
	algo_u32 next[HYBRID_TAIL_WORDS], w, v, carry = 0, alive = 0, done = 0;
	algo_u32 reach = record + algo_word(t, record + HYBRID_BIT_AT * words) + 2 * words * class;
	algo_u32 targets = record + algo_word(t, record + HYBRID_BIT_AT * words + 1);

	if (words > HYBRID_TAIL_WORDS)
		words = HYBRID_TAIL_WORDS;
	for (w = 0; w < words; w++)
		next[w] = 0;
	for (w = 0; w < words; w++) {
		algo_u32 state = *hybrid_word(run, place + w), took, shifted, exceptions, left, i;

		if (!state) {
			next[w] |= carry;
			carry = 0;
			continue;
		}
		took = state & algo_word(t, reach + w);
		done |= (took & algo_word(t, record + HYBRID_BIT_MATCH * words + w)) | (state & algo_word(t, reach + words + w));
		shifted = took & algo_word(t, record + HYBRID_BIT_SHIFT * words + w);
		next[w] |= shifted << 1 | carry | (took & algo_word(t, record + HYBRID_BIT_LOOP * words + w));
		carry = shifted >> 31;
		exceptions = algo_word(t, record + HYBRID_BIT_EXCEPTION * words + w);
		left = took & exceptions;
		for (i = 0; i < 32 && left; i++, left &= left - 1) {
			algo_u32 bit = left & (0 - left);
			algo_u32 e = algo_word(t, record + HYBRID_BIT_BEFORE * words + w) + algo_ones(exceptions & (bit - 1));

			for (v = 0; v < words; v++)
				next[v] |= algo_word(t, targets + e * words + v);
		}
	}
	*match = done != 0;
	for (w = 0; w < words; w++) {
		algo_u32 state = done ? 0 : next[w];

		*hybrid_word(run, place + w) = state;
		alive |= state;
	}
	return alive != 0;
}

ALGO_INLINE int hybrid_bits_end(struct algo_table t, struct hybrid_run *run, algo_u32 words, algo_u32 record, algo_u32 place)
{
	algo_u32 w, at_end = 0;

	for (w = 0; w < words && w < HYBRID_TAIL_WORDS; w++)
		at_end |= *hybrid_word(run, place + w) & algo_word(t, record + HYBRID_BIT_END * words + w);
	return at_end != 0;
}

#endif

/* hybrid_activate: the head has come to a tail's border. */
ALGO_INLINE void hybrid_activate(struct algo_table t, struct hybrid_run *run, algo_u32 group, algo_u32 tail, struct d2fa_found found)
{
	algo_u32 at = hybrid_tail(t, tail), place = algo_word(t, at + HYBRID_TAIL_PLACE), record = algo_word(t, at + HYBRID_TAIL_RECORD);
	algo_u32 count, first, *state;
	int was_active;

	if (hybrid_has(found, algo_word(t, at + HYBRID_TAIL_PATTERN)))
		return;
#if HYBRID_TAIL_WORDS > 1
	if (algo_word(t, at + HYBRID_TAIL_BITS)) {
		was_active = hybrid_bits_enter(t, run, algo_word(t, at + HYBRID_TAIL_BITS), record, place);
	} else
#endif
	{
		state = hybrid_word(run, place);
		was_active = *state != 0;
		*state = was_active ? d2fa_next(t, *state, algo_word(t, at + HYBRID_TAIL_AGAIN)) : record;
		d2fa_report(t, *state, 0, found);
		if (!*state)
			return;
	}
	count = run->active[group & (D2FA_GROUPS - 1)];
	if (was_active || count >= HYBRID_TAILS)
		return;
	first = algo_word(t, d2fa_group(t, group) + HYBRID_GROUP_FIRST);
	run->list[(first + count) & (HYBRID_TAILS - 1)] = tail;
	run->active[group & (D2FA_GROUPS - 1)] = count + 1;
}

/* hybrid_take is what an entry of a head's list of finds asks: a pattern is marked, a tail activated. */
ALGO_INLINE void hybrid_take(struct algo_table t, struct hybrid_run *run, algo_u32 group, algo_u32 what, struct d2fa_found found)
{
	if (what & HYBRID_IS_TAIL)
		hybrid_activate(t, run, group, what & ~HYBRID_IS_TAIL, found);
	else
		d2fa_mark(found, what);
}

/* hybrid_report takes all that a head's state finds. */
ALGO_INLINE void hybrid_report(struct algo_table t, struct hybrid_run *run, algo_u32 group, algo_u32 head, struct d2fa_found found)
{
	algo_u32 i, count, list;

	if (!(head & D2FA_FINDS))
		return;
	list = d2fa_reports(t, head, 0, &count);
	for (i = 0; i < D2FA_REPORTS && i < count; i++)
		hybrid_take(t, run, group, algo_word(t, list + i), found);
}

/* hybrid_tail_step takes a byte in an active tail. It returns whether it is still active. */
ALGO_INLINE int hybrid_tail_step(struct algo_table t, struct hybrid_run *run, algo_u32 tail, algo_u8 byte, struct d2fa_found found)
{
	algo_u32 at = hybrid_tail(t, tail), place = algo_word(t, at + HYBRID_TAIL_PLACE);
	algo_u32 class = algo_word(t, algo_word(t, at + HYBRID_TAIL_CLASSES) + byte), *state;

#if HYBRID_TAIL_WORDS > 1
	algo_u32 words = algo_word(t, at + HYBRID_TAIL_BITS);

	if (words) {
		int match, alive = hybrid_bits_step(t, run, words, algo_word(t, at + HYBRID_TAIL_RECORD), place, class, &match);

		if (match)
			d2fa_mark(found, algo_word(t, at + HYBRID_TAIL_PATTERN));
		return alive;
	}
#endif
	state = hybrid_word(run, place);
	if (*state)
		*state = d2fa_next(t, *state, class);
	d2fa_report(t, *state, 0, found);
	return *state != 0;
}

/* hybrid_tail_finish marks what an active tail finds at the end of the stream. */
ALGO_INLINE void hybrid_tail_finish(struct algo_table t, struct hybrid_run *run, algo_u32 tail, struct d2fa_found found)
{
	algo_u32 at = hybrid_tail(t, tail), place = algo_word(t, at + HYBRID_TAIL_PLACE);

#if HYBRID_TAIL_WORDS > 1
	algo_u32 words = algo_word(t, at + HYBRID_TAIL_BITS);

	if (words) {
		if (hybrid_bits_end(t, run, words, algo_word(t, at + HYBRID_TAIL_RECORD), place))
			d2fa_mark(found, algo_word(t, at + HYBRID_TAIL_PATTERN));
		return;
	}
#endif
	d2fa_report(t, *hybrid_word(run, place), 1, found);
}

/* hybrid_step takes a byte in a group: in its active tails, then in its head. */
ALGO_INLINE void hybrid_step(struct algo_table t, struct hybrid_run *run, algo_u32 group, algo_u8 byte, struct d2fa_found found)
{
	algo_u32 g = group & (D2FA_GROUPS - 1), entry = d2fa_group(t, group), active = run->active[g], state = run->head[g];

	if (active) {
		algo_u32 first = algo_word(t, entry + HYBRID_GROUP_FIRST), i, kept = 0;

		for (i = 0; i < HYBRID_TAILS && i < active; i++) {
			algo_u32 tail = run->list[(first + i) & (HYBRID_TAILS - 1)];

			if (hybrid_tail_step(t, run, tail, byte, found))
				run->list[(first + kept++) & (HYBRID_TAILS - 1)] = tail;
		}
		run->active[g] = kept;
	}
	if (!state)
		return;
	state = d2fa_next(t, state, algo_word(t, algo_word(t, entry + D2FA_GROUP_CLASSES) + byte));
	run->head[g] = state;
	hybrid_report(t, run, group, state, found);
}

#ifndef __bpf__

ALGO_INLINE void hybrid_begin(struct algo_table t, struct hybrid_run *run, struct d2fa_found found)
{
	algo_u32 g, i, groups = d2fa_groups(t), memory = algo_word(t, HYBRID_HEAD_MEMORY);

	for (i = 0; i < HYBRID_MEMORY && i < memory; i++)
		run->state[i] = 0;
	for (g = 0; g < groups; g++) {
		run->active[g] = 0;
		run->head[g] = algo_word(t, d2fa_group(t, g) + D2FA_GROUP_START);
		hybrid_report(t, run, g, run->head[g], found);
	}
}

ALGO_INLINE void hybrid_feed(struct algo_table t, struct hybrid_run *run, const algo_u8 *data, algo_u32 length, struct d2fa_found found)
{
	algo_u32 g, i, groups = d2fa_groups(t);

	for (g = 0; g < groups; g++)
		for (i = 0; i < length && (run->head[g] || run->active[g]); i++)
			hybrid_step(t, run, g, data[i], found);
}

ALGO_INLINE void hybrid_finish(struct algo_table t, struct hybrid_run *run, struct d2fa_found found)
{
	algo_u32 g, i, groups = d2fa_groups(t);

	for (g = 0; g < groups; g++) {
		algo_u32 first = algo_word(t, d2fa_group(t, g) + HYBRID_GROUP_FIRST);

		d2fa_report(t, run->head[g], 1, found);
		for (i = 0; i < HYBRID_TAILS && i < run->active[g]; i++)
			hybrid_tail_finish(t, run, run->list[(first + i) & (HYBRID_TAILS - 1)], found);
	}
}

#endif

#endif
