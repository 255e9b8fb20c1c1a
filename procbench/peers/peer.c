/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The program around a peer's library: options, files, turns. peer.h says how it is used.
 */
#define _GNU_SOURCE
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define EXIT_REFUSED 1
#define EXIT_WRONG 3
#define HUGE_PAGE ((size_t)2 << 20)
#define MOST_KEYS (1U << 28)

/* What is measured in each turn. */
struct turn {
	int set;
	const char *access; /* "hot" or "all" */
	const struct peer_way *way;
	struct peer_work work;
	double per_pass; /* keys, or bytes */
	algo_u32 expected;
};

void peer_refuse(const char *what, const char *why, ...)
{
	va_list list;

	fprintf(stderr, "%s: %s: ", peer_program, what);
	va_start(list, why);
	vfprintf(stderr, why, list);
	va_end(list);
	fprintf(stderr, "\n");
	exit(EXIT_REFUSED);
}

void *peer_allocate(size_t bytes, int huge)
{
	size_t align = huge ? HUGE_PAGE : 64;
	void *memory;

	bytes = (bytes + align - 1) / align * align;
	if (posix_memalign(&memory, align, bytes ? bytes : align))
		peer_refuse("memory", "none for %lu bytes", (unsigned long)bytes);
	if (huge)
		madvise(memory, bytes, MADV_HUGEPAGE); /* else small pages: slower, not wrong */
	return memory;
}

void peer_lines(const char *file, void (*take)(char *line, unsigned number))
{
	FILE *f = fopen(file, "r");
	char *line = 0;
	size_t room = 0;
	unsigned number = 0;
	ssize_t n;

	if (!f)
		peer_refuse(file, "%s", strerror(errno));
	while ((n = getline(&line, &room, f)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = 0;
		take(line, ++number);
	}
	if (ferror(f))
		peer_refuse(file, "%s", strerror(errno));
	free(line);
	fclose(f);
}

int peer_route(char *line, int family, unsigned char address[16], uint32_t *hop)
{
	char *slash = strchr(line, '/'), *end;
	long bits, number;

	if (!slash)
		peer_refuse(line, "not a route: expected PREFIX NUMBER");
	*slash = 0;
	bits = strtol(slash + 1, &end, 10);
	number = strtol(end, 0, 10);
	if (inet_pton(family == 4 ? AF_INET : AF_INET6, line, address) != 1 || bits < 0 || bits > (family == 4 ? 32 : 128) || number < 1)
		peer_refuse(line, "not a route of IPv%d: expected PREFIX NUMBER", family);
	*hop = (uint32_t)number;
	return (int)bits;
}

size_t peer_pattern(char *line, unsigned *number, const char **flags, const char **bytes)
{
	char *at, *out;

	*number = (unsigned)strtoul(line, &at, 10);
	if (at == line || *at != ' ' || !strchr(at + 1, ' '))
		peer_refuse(line, "not a pattern: expected NUMBER FLAGS HEX");
	*flags = at + 1;
	at = strchr(at + 1, ' ');
	*at++ = 0;
	*bytes = out = at;
	while (at[0] && at[1]) {
		char two[3] = { at[0], at[1], 0 }, *end;

		*out++ = (char)strtoul(two, &end, 16);
		if (*end)
			peer_refuse(at, "not hexadecimal digits");
		at += 2;
	}
	*out = 0;
	return (size_t)(out - *bytes);
}

static uint32_t number_of(const unsigned char *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* check_records turns the lengths of records into numbers of this CPU, and tells whether they fill the payload. */
static int check_records(struct peer_set *s, size_t bytes)
{
	size_t at = 0;

	for (size_t i = 0; i < s->count; i++) {
		uint32_t length;

		if (bytes - at < 4)
			return 0;
		length = number_of(s->data + at);
		memcpy(s->data + at, &length, 4);
		at += 4;
		if (((size_t)length + 3) / 4 * 4 > bytes - at)
			return 0;
		at += ((size_t)length + 3) / 4 * 4;
		s->length += length;
	}
	return at == bytes;
}

static void load_set(const char *file, uint32_t key, struct peer_set *s)
{
	unsigned char head[16];
	FILE *f = fopen(file, "rb");
	size_t bytes;

	if (!f)
		peer_refuse(file, "%s", strerror(errno));
	if (fread(head, sizeof(head), 1, f) != 1 || memcmp(head, key ? "mnk1" : "mnp1", 4))
		peer_refuse(file, key ? "not a file of keys (mnk1)" : "not a file of payload (mnp1)");
	if (key) {
		s->key = number_of(head + 4);
		s->count = number_of(head + 8);
		s->stride = (s->key + 3) / 4 * 4;
		if (s->key != key || s->count > MOST_KEYS)
			peer_refuse(file, "%lu keys of %u bytes: expected keys of %u", (unsigned long)s->count, s->key, key);
		bytes = s->count * s->stride;
	} else {
		s->count = number_of(head + 4);
		bytes = number_of(head + 8);
	}
	s->data = (unsigned char *)peer_allocate(bytes, 0);
	if (!s->count || fread(s->data, bytes, 1, f) != 1 || fgetc(f) != EOF)
		peer_refuse(file, "it is empty, or not as long as its header tells");
	if (!key && (!check_records(s, bytes) || !s->length))
		peer_refuse(file, "its records don't fill it as its header tells");
	fclose(f);
}

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void wrong(const struct turn *t)
{
	fprintf(stderr, "%s: %s lookups of %s keys answered otherwise than before\n", peer_program, t->way->order, t->access);
	exit(EXIT_WRONG);
}

/* measure is ns per key or byte of one way to ask: of the time that the program had the CPU, as minne-procbench measures. */
static double measure(const struct turn *t, double seconds)
{
	double end = now(CLOCK_MONOTONIC) + seconds * 1e9, begin = now(CLOCK_THREAD_CPUTIME_ID);
	unsigned long passes = 0;

	do {
		if (t->way->run(&t->work) != t->expected)
			wrong(t);
		passes++;
	} while (now(CLOCK_MONOTONIC) < end); /* which takes no system call */
	return (now(CLOCK_THREAD_CPUTIME_ID) - begin) / ((double)passes * t->per_pass);
}

static struct turn turns[PEER_SETS * PEER_WAYS * 2];
static int turn_count;

/* add_turns finds out what a set's answers are, and says so. */
static void add_turns(const struct peer_algorithm *a, int set, const struct peer_set *s, size_t hot)
{
	struct algo_checksum sum = { 0, 0 };
	struct peer_work work = { s, s->count, &sum };
	algo_u32 all = a->ways[0].run(&work), few = 0;

	work.sum = 0;
	printf("%s{\"count\":%lu,\"sum\":%u,\"checksum\":\"%08x%08x\"}", set ? "," : "", (unsigned long)s->count, all, sum.a, sum.b);
	for (int i = 0; i < PEER_WAYS && a->ways[i].order; i++) {
		struct turn t = { set, "hot", &a->ways[i], { s, hot, 0 }, (double)hot, 0 };

		if (s->key && hot < s->count) {
			few = i ? few : t.way->run(&t.work);
			t.expected = few;
			if (t.way->run(&t.work) != few)
				wrong(&t);
			turns[turn_count++] = t;
		}
		t.access = "all";
		t.work.count = s->count;
		t.per_pass = s->key ? (double)s->count : (double)s->length;
		t.expected = all;
		if (t.way->run(&t.work) != all)
			wrong(&t);
		turns[turn_count++] = t;
	}
}

static const struct peer_algorithm *named(const char *name)
{
	for (int i = 0; peer_algorithms[i]; i++)
		if (!strcmp(peer_algorithms[i]->name, name))
			return peer_algorithms[i];
	return 0;
}

static void usage(void)
{
	fprintf(stderr, "usage: %s [--cpu N] [--hot N] [--huge] ALGORITHM TABLE KEYS|PAYLOAD...\n  ALGORITHM ", peer_program);
	for (int i = 0; peer_algorithms[i]; i++)
		fprintf(stderr, " %s", peer_algorithms[i]->name);
	fprintf(stderr, "\n  %s --check ALGORITHM TABLE\n  %s --version\n", peer_program, peer_program);
	exit(2);
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		peer_refuse("--cpu", "%s", strerror(errno));
}

/* take_turns measures each time that it is told to. */
static void take_turns(void)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
		double seconds = strtod(line, 0);

		if (!(seconds > 0 && seconds < 3600))
			peer_refuse("standard input", "expected a number of seconds");
		printf("{\"ns\":[");
		for (int i = 0; i < turn_count; i++)
			printf("%s%.5g", i ? "," : "", measure(&turns[i], seconds));
		printf("]}\n");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	static struct peer_set sets[PEER_SETS];
	const struct peer_algorithm *a;
	size_t hot = 2048, bytes;
	double begin;
	int huge = 0, cpu = -1, i;

	if (argc == 2 && !strcmp(argv[1], "--version")) {
		printf("%s\n", peer_version());
		return 0;
	}
	if (argc == 4 && !strcmp(argv[1], "--check")) {
		if (!(a = named(argv[2])) || !a->check)
			usage();
		a->check(argv[3]);
		return 0;
	}
	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--huge"))
			huge = 1;
		else if (!strcmp(argv[i], "--cpu") && i + 1 < argc)
			cpu = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--hot") && i + 1 < argc && atoi(argv[i + 1]) > 0)
			hot = (size_t)atoi(argv[++i]);
		else
			usage();
	}
	if (argc - i < 3 || argc - i - 2 > PEER_SETS || !(a = named(argv[i])))
		usage();
	peer_begin(huge);
	if (cpu >= 0)
		stay_on(cpu);
	begin = now(CLOCK_MONOTONIC);
	bytes = a->build(argv[i + 1]);
	printf("{\"program\":\"%s\",\"version\":\"%s\",\"algorithm\":\"%s\",\"build_seconds\":%.3f,\"bytes\":%lu,\"sets\":[", peer_program,
	       peer_version(), a->name, (now(CLOCK_MONOTONIC) - begin) / 1e9, (unsigned long)bytes);
	for (int s = 0; s < argc - i - 2; s++) {
		load_set(argv[i + 2 + s], a->key, &sets[s]);
		if (a->prepare)
			a->prepare(&sets[s]);
		add_turns(a, s, &sets[s], hot);
	}
	printf("],\"ways\":[");
	for (int t = 0; t < turn_count; t++)
		printf("%s{\"set\":%d,\"access\":\"%s\",\"order\":\"%s\",\"per\":\"%s\"}", t ? "," : "", turns[t].set, turns[t].access,
		       turns[t].way->order, a->key ? "key" : "byte");
	printf("]}\n");
	fflush(stdout);
	take_turns();
	return 0;
}
