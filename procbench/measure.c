/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Times configurations in turns: a machine that is slow for a second is slow for all of them. A
 * figure is the median of the repetitions, with the 95 % interval of a percentile bootstrap.
 *
 * What is counted is the time that the process had a CPU: what others on the machine take is not the table's. Some kernels
 * count that in ticks only; then it is the time that went by, and the machine should be idle.
 */
#define _GNU_SOURCE
#include "procbench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RESAMPLES 1000

#define TICK 100e3 /* ns: a clock that goes on by more is too coarse */

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* counts_cpu tells whether the clock of the process's CPU time goes on in small enough steps. */
static int counts_cpu(void)
{
	double begin = now(CLOCK_PROCESS_CPUTIME_ID), give_up = now(CLOCK_MONOTONIC) + 1e9, at;

	do
		at = now(CLOCK_PROCESS_CPUTIME_ID);
	while (at == begin && now(CLOCK_MONOTONIC) < give_up);
	begin = at;
	do
		at = now(CLOCK_PROCESS_CPUTIME_ID);
	while (at == begin && now(CLOCK_MONOTONIC) < give_up);
	return at > begin && at - begin < TICK;
}

const char *measure_clock;
static clockid_t counted;

/* repeat goes through the keys until so many ns have gone by, at least once, and returns ns per key or
 * byte. It returns a negative number when answers were wrong. */
static double repeat(const struct configuration *c, double budget)
{
	double end = now(CLOCK_MONOTONIC) + budget, begin = now(counted);
	unsigned long passes = 0;

	do {
		if (c->run(&c->work) != c->expected)
			return -1;
		passes++;
	} while (now(CLOCK_MONOTONIC) < end);
	return (now(counted) - begin) / ((double)passes * c->per_pass);
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
	int cpu = counts_cpu();

	counted = cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
	measure_clock = cpu ? "cpu" : "wall";
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
