/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Times configurations in turns: a machine that is slow for a second is slow for all of them. A
 * figure is the median of the repetitions, with the 95 % interval of a percentile bootstrap.
 */
#define _GNU_SOURCE
#include "procbench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RESAMPLES 1000

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* repeat goes through the keys until so many ns are over, at least once, and returns ns per key or
 * byte. It returns a negative number when answers were wrong. */
static double repeat(const struct configuration *c, double budget)
{
	double begin = now(), end;
	unsigned long passes = 0;

	do {
		if (c->run(&c->work) != c->expected)
			return -1;
		passes++;
		end = now();
	} while (end - begin < budget);
	return (end - begin) / ((double)passes * c->per_pass);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), compare);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static struct figure figure(const double *values, int n)
{
	double *sample = allocate((size_t)n * sizeof(*sample), 0), *medians = allocate(RESAMPLES * sizeof(*medians), 0);
	struct figure f;
	uint32_t random = 2463534242U;

	for (int i = 0; i < RESAMPLES; i++) {
		for (int j = 0; j < n; j++) {
			random ^= random << 13;
			random ^= random >> 17;
			random ^= random << 5;
			sample[j] = values[random % (uint32_t)n];
		}
		medians[i] = median(sample, n);
	}
	qsort(medians, RESAMPLES, sizeof(*medians), compare);
	f.low = medians[RESAMPLES * 25 / 1000];
	f.high = medians[RESAMPLES * 975 / 1000 - 1];
	memcpy(sample, values, (size_t)n * sizeof(*sample));
	f.median = median(sample, n);
	free(sample);
	free(medians);
	return f;
}

const struct configuration *measure(struct configuration *list, int n, int repetitions, double seconds)
{
	double budget = seconds * 1e9 / repetitions / n;

	for (int r = 0; r < repetitions; r++) {
		for (int i = 0; i < n; i++) {
			list[i].ns[r] = repeat(&list[i], budget);
			if (list[i].ns[r] < 0)
				return &list[i];
		}
	}
	for (int i = 0; i < n; i++)
		list[i].figure = figure(list[i].ns, repetitions);
	return 0;
}
