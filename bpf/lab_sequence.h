// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What became of the order of a stream's packets at one CPU of the sink: each
// sequence number is in order, reordered (RFC 4737: one with a higher number came
// before), or a duplicate. Duplicates are recognised within the last WINDOW
// numbers; an older one counts as reordered.
#pragma once

#define WINDOW 8192
#define WINDOW_WORDS (WINDOW / 64)

struct sequence {
	__u64 highest; // the highest number seen, plus 1
	__u64 reordered;
	__u64 duplicated;
	__u64 seen[WINDOW_WORDS]; // a bit per number
};

// file enters a number and tells whether it came for the first time.
static __always_inline int file(struct sequence *s, __u64 number)
{
	__u64 bit = 1ULL << (number % 64);
	__u32 word = (number / 64) % WINDOW_WORDS;

	if (number >= s->highest) {
		__u64 old = (s->highest + 63) / 64, new = number / 64; // words to clear: old…new

		for (int i = 0; i < WINDOW_WORDS && old <= new; i++, old++)
			s->seen[old % WINDOW_WORDS] = 0;
		s->highest = number + 1;
	} else {
		if (number + WINDOW - 64 >= s->highest && s->seen[word] & bit) {
			s->duplicated++;
			return 0;
		}
		s->reordered++;
	}
	s->seen[word] |= bit;
	return 1;
}
