// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Measures and checks Bloom filters (algo/bloom.h) inside the kernel, without packets. One run of
// a program asks for thousands of keys from an array. bench times them; check writes every answer down.
//
// Only internal/lab/algo/bloombench loads this. It may use bpf_loop, unlike the programs that forward.

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "algo/bloom.h"
#include "bench_run.h"

// Keys; a power of two.
#define KEYS (1 << 20)

// What is asked of this load of the programs.
#define ASK_NOTHING 0 // only the loop and the hash
#define ASK_BLOOM 1
#define ASK_COUNTING 2
#define ASK_UPDATE 3 // a counting filter: the key is added and taken back

const volatile __u32 ask = ASK_NOTHING;
const volatile __u32 length = 4;       // bytes of a key
const volatile __u32 stride_shift = 2; // a key's place is its number shifted by this
const volatile __u32 keys_mask = KEYS - 1;
const volatile __u32 filter_mask = 0; // words of the image, minus 1

// The loader sets the sizes of keys and filter. Behind the keys there are BLOOM_KEY bytes.
BENCH_ARRAY(keys, KEYS * 4 + BLOOM_KEY);
BENCH_ARRAY(answers, KEYS * 4);
BENCH_ARRAY(filter, 4);

// What a loop carries from one key to the next.
struct walk {
	const void *keys;
	__u32 *answers;
	struct run *run; // its sum is kept there, where the verifier does not follow it
};

// word_of is 4 bytes of a key, the first one the lowest.
static __always_inline __u32 word_of(__u32 bytes)
{
	return bpf_ntohl(__builtin_bswap32(bytes));
}

// hash_of takes keys of the common lengths by words.
static __always_inline struct bloom_hash hash_of(struct bloom f, const __u8 *key)
{
	const __u32 *words = (const __u32 *)key;
	struct bloom_hash h = { f.seed[0], f.seed[1] };

	if (length == 4)
		return bloom_hash_word(f, word_of(words[0]));
	if (length != 16)
		return bloom_hash(f, key, length);
	for (int i = 0; i < 4; i++)
		bloom_block(&h, word_of(words[i]));
	return bloom_end(h, 0, 16);
}

static __always_inline __u32 answer_to(const __u8 *key)
{
	__u32 zero = 0;
	__u32 *words = bpf_map_lookup_elem(&filter, &zero);

	if (!words)
		return 0;

	struct bloom f = bloom_open((struct algo_table){ words, filter_mask });
	struct bloom_hash h = hash_of(f, key);

	if (ask == ASK_BLOOM)
		return bloom_has(f, h);
	if (ask == ASK_COUNTING)
		return counting_has(f, h);
	if (ask == ASK_UPDATE) {
		counting_add(f, words, h);
		return counting_remove(f, words, h);
	}
	return h.a & 1;
}

static __always_inline const __u8 *key_at(struct walk *w, __u32 i)
{
	return (const __u8 *)w->keys + ((i & keys_mask) << stride_shift);
}

static long time_one(__u32 i, struct walk *w)
{
	__u32 at = w->run->first + i;

	if (w->run->dependent)
		at += (__u32)w->run->sum & w->run->zero;
	w->run->sum += answer_to(key_at(w, at));
	return 0;
}

static long answer_one(__u32 i, struct walk *w)
{
	w->answers[i & (KEYS - 1)] = answer_to(key_at(w, i));
	return 0;
}

BENCH_PROGRAM(bench, time_one, keys)
BENCH_PROGRAM(check, answer_one, keys)

char _license[] SEC("license") = "Dual BSD/GPL";
