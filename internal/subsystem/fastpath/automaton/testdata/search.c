/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Runs the native lookups of bpf/algo for the tests and for measurements.
 *
 *	search check             reads cases from standard input, writes what each finds
 *	search speed IMAGE FILE  finds the patterns of an image in a file again and again; prints MB per
 *	                         second of CPU time of each of 9 rounds
 *
 * A case is words in the CPU's order: the image's size in bytes, the image, the number of pieces, and for
 * each piece its size and its bytes. Its answer is FOUND_WORDS words. An image that is not accepted
 * is answered by words of ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "d2fa.h"
#include "hybrid.h"

#define STREAM_BYTES 16384 /* of a stream, when speed is measured: so long may tails stay active */
#define FOUND_WORDS 256 /* 8,192 patterns */

static algo_u32 bits[FOUND_WORDS];
static const struct d2fa_found found = { bits, FOUND_WORDS - 1 };
static struct d2fa_run d2fa;
static struct hybrid_run hybrid;

static void *must(void *p)
{
	if (!p) {
		perror("search");
		exit(1);
	}
	return p;
}

static int read_all(void *to, size_t size)
{
	return fread(to, 1, size, stdin) == size;
}

static void begin(struct algo_table t)
{
	if (algo_word(t, ALGO_HEAD_KIND) == ALGO_HYBRID)
		hybrid_begin(t, &hybrid, found);
	else
		d2fa_begin(t, &d2fa, found);
}

static void feed(struct algo_table t, const algo_u8 *data, algo_u32 size)
{
	if (algo_word(t, ALGO_HEAD_KIND) == ALGO_HYBRID)
		hybrid_feed(t, &hybrid, data, size, found);
	else
		d2fa_feed(t, &d2fa, data, size, found);
}

static void finish(struct algo_table t)
{
	if (algo_word(t, ALGO_HEAD_KIND) == ALGO_HYBRID)
		hybrid_finish(t, &hybrid, found);
	else
		d2fa_finish(t, &d2fa, found);
}

/* fits asks only what the lookup's bounds ask: broken words behind the header are the tests' purpose. */
static int fits(struct algo_table t)
{
	if (algo_word(t, ALGO_HEAD_KIND) == ALGO_HYBRID)
		return hybrid_fits(t, found);
	return d2fa_fits(t, found);
}

static int check(void)
{
	algo_u32 size, pieces, length, i;

	while (read_all(&size, 4)) {
		algo_u32 *words = must(malloc(size));
		struct algo_table t = { words, size / 4 - 1 };
		int good;

		if (!read_all(words, size) || !read_all(&pieces, 4))
			return 1;
		memset(bits, 0, sizeof(bits));
		good = fits(t);
		if (good)
			begin(t);
		else
			memset(bits, 0xff, sizeof(bits));
		for (i = 0; i < pieces; i++) {
			algo_u8 *data;

			if (!read_all(&length, 4))
				return 1;
			data = must(malloc(length + !length));
			if (!read_all(data, length))
				return 1;
			if (good)
				feed(t, data, length);
			free(data);
		}
		if (good)
			finish(t);
		fwrite(bits, 4, FOUND_WORDS, stdout);
		fflush(stdout);
		free(words);
	}
	return 0;
}

static void *load(const char *path, size_t *size)
{
	FILE *f = must(fopen(path, "rb"));
	void *p;

	fseek(f, 0, SEEK_END);
	*size = (size_t)ftell(f);
	rewind(f);
	p = must(malloc(*size));
	if (fread(p, 1, *size, f) != *size)
		exit(1);
	fclose(f);
	return p;
}

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int speed(const char *image, const char *file)
{
	size_t image_size, size, i;
	struct algo_table t;
	algo_u8 *data;
	int round;

	t.words = load(image, &image_size);
	t.mask = (algo_u32)(image_size / 4 - 1);
	data = load(file, &size);
	for (round = 0; round < 9; round++) {
		size_t done = 0, ones = 0, n;
		double before = cpu_seconds(), took;

		do {
			memset(bits, 0, sizeof(bits));
			for (i = 0; i < size; i += n) {
				n = size - i < STREAM_BYTES ? size - i : STREAM_BYTES;
				begin(t);
				feed(t, data + i, (algo_u32)n);
				finish(t);
			}
			done += size;
			took = cpu_seconds() - before;
		} while (took < 0.3);
		for (i = 0; i < FOUND_WORDS; i++)
			ones += algo_ones(bits[i]);
		printf("%.1f MB/s, %zu found\n", done / 1e6 / took, ones);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "check"))
		return check();
	if (argc == 4 && !strcmp(argv[1], "speed"))
		return speed(argv[2], argv[3]);
	fprintf(stderr, "usage: search check | search speed IMAGE FILE\n");
	return 2;
}
