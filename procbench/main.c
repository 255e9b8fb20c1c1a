/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * minne-procbench: how fast this CPU searches a table. One static program without dependencies, for machines on which
 * there is neither Go nor eBPF. It needs memory for the table and the keys, and little more; it says how much.
 *
 * Each set of keys is gone through in several ways, in turns: its first keys again and again, which leaves what they need of
 * the table in the caches ("hot"), and all of them; each key by itself, or only known when the last answer is (which
 * a CPU may guess where an answer is found by branches, as that of a classic Bloom filter). All answers are summed up
 * (checksum.h): the same table and keys give the same checksum on every CPU.
 */
#define _GNU_SOURCE
#include "procbench.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* Exit codes beside 0. */
#define EXIT_REFUSED 1
#define EXIT_USAGE 2
#define EXIT_WRONG 3

#define MOST_CONFIGURATIONS (MOST_SETS * MOST_WAYS * 2)
#define MOST_REPETITIONS 1001

struct options {
	int json, check, huge, cpu, repetitions;
	double seconds;
	size_t hot;
	const struct algorithm *algorithm;
	const char *image;
	const char *sets[MOST_SETS];
	int set_count;
};

static void usage(FILE *to)
{
	fprintf(to, "usage: minne-procbench [options] ALGORITHM IMAGE KEYS|PAYLOAD...\n"
		    "  ALGORITHM ");
	for (int i = 0; algorithms[i]; i++)
		fprintf(to, " %s", algorithms[i]->name);
	fprintf(to, "\n"
		    "  IMAGE       table, made by minne; \"-\" is standard input\n"
		    "  KEYS        what is looked up: up to 8 files; PAYLOAD for d2fa and hybrid\n"
		    "  --json      print JSON\n"
		    "  --seconds S measure so long in all (4)\n"
		    "  --repeat N  repetitions of each measurement (9); intervals need 9 or more\n"
		    "  --cpu N     stay on this CPU\n"
		    "  --hot N     keys that are looked up again and again (2048)\n"
		    "  --huge      ask for huge pages for the table\n"
		    "  --check     only answer: checksums, no times\n");
}

static void wrong_usage(const char *what, const char *argument)
{
	fprintf(stderr, "minne-procbench: %s: %s\n", argument, what);
	usage(stderr);
	exit(EXIT_USAGE);
}

/* count_of reads a whole number from least to most. */
static long count_of(const char *option, const char *text, long least, long most)
{
	char *end;
	long n;

	if (!text)
		wrong_usage("a number is missing", option);
	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < least || n > most)
		wrong_usage("not a number in its range", option);
	return n;
}

static double seconds_of(const char *option, const char *text)
{
	char *end;
	double s;

	if (!text)
		wrong_usage("a number is missing", option);
	s = strtod(text, &end);
	if (end == text || *end || !(s >= 0 && s <= 86400))
		wrong_usage("not a number of seconds, at most a day", option);
	return s;
}

static const struct algorithm *named(const char *name)
{
	const struct algorithm *a = algorithm_named(name);

	if (!a)
		wrong_usage("no algorithm of this name", name);
	return a;
}

/* option reads an option at argv[i] and returns how many arguments it takes; 0: it is none. */
static int option(struct options *o, char **argv, int i)
{
	const char *a = argv[i], *value = argv[i + 1];

	if (!strcmp(a, "--json"))
		return o->json = 1;
	if (!strcmp(a, "--check"))
		return o->check = 1;
	if (!strcmp(a, "--huge"))
		return o->huge = 1;
	if (!strcmp(a, "--seconds"))
		o->seconds = seconds_of(a, value);
	else if (!strcmp(a, "--repeat"))
		o->repetitions = (int)count_of(a, value, 1, MOST_REPETITIONS);
	else if (!strcmp(a, "--cpu"))
		o->cpu = (int)count_of(a, value, 0, CPU_SETSIZE - 1);
	else if (!strcmp(a, "--hot"))
		o->hot = (size_t)count_of(a, value, 1, 1L << 30);
	else if (a[0] == '-' && a[1])
		wrong_usage("no such option", a);
	else
		return 0;
	return 2;
}

static void standard_input_once(const struct options *o)
{
	int n = !strcmp(o->image, "-");

	for (int i = 0; i < o->set_count; i++)
		n += !strcmp(o->sets[i], "-");
	if (n > 1)
		wrong_usage("standard input is one file only", "-");
}

static void read_options(struct options *o, int argc, char **argv)
{
	int place = 0, taken;

	for (int i = 1; i < argc; i += taken) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			usage(stdout);
			exit(0);
		}
		taken = option(o, argv, i);
		if (taken)
			continue;
		taken = 1;
		if (place == 0)
			o->algorithm = named(argv[i]);
		else if (place == 1)
			o->image = argv[i];
		else if (o->set_count == MOST_SETS)
			wrong_usage("too many files", argv[i]);
		else
			o->sets[o->set_count++] = argv[i];
		place++;
	}
	if (!o->set_count)
		wrong_usage("an algorithm, an image and keys or payload are needed", place ? argv[argc - 1] : "nothing given");
	standard_input_once(o);
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		fprintf(stderr, "minne-procbench: CPU %d: %s\n", cpu, strerror(errno));
		exit(EXIT_REFUSED);
	}
}

/* peak is the most memory that the process has had, in KiB, or 0 where the kernel does not say. */
static unsigned long peak(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static const char *const origins[] = { "unknown", "random", "in-table" };

static const char *origin(const struct set *s)
{
	return origins[s->origin <= ORIGIN_IN_TABLE ? s->origin : ORIGIN_UNKNOWN];
}

/* A run of the program. */
struct bench {
	struct options options;
	struct table table;
	struct set sets[MOST_SETS];
	struct algo_checksum sums[MOST_SETS];
	struct configuration list[MOST_CONFIGURATIONS];
	int count; /* of configurations */
	void *state;
	size_t state_bytes;
};

static size_t set_bytes(const struct bench *b)
{
	size_t sum = 0;

	for (int i = 0; i < b->options.set_count; i++)
		sum += b->sets[i].bytes;
	return sum;
}

static void load(struct bench *b)
{
	const struct algorithm *a = b->options.algorithm;
	const char *why;

	load_table(b->options.image, a, b->options.huge, &b->table);
	for (int i = 0; i < b->options.set_count; i++) {
		load_set(b->options.sets[i], a, &b->sets[i]);
		why = a->fits(&b->table, &b->sets[i]);
		if (why)
			refuse(b->options.image, why);
		if (a->prepare)
			a->prepare(&b->table, &b->sets[i]);
	}
	if (a->state) {
		b->state_bytes = a->state(&b->table);
		b->state = allocate(b->state_bytes, 0);
		memset(b->state, 0, b->state_bytes);
	}
}

static struct work work_of(struct bench *b, int set, size_t count)
{
	static volatile size_t zero;
	struct work w = {
		.table = &b->table, .set = &b->sets[set], .count = count, .zero = zero, .sum = &b->sums[set], .state = b->state,
	};

	return w;
}

/* add adds a configuration, with the answers that it gives now. */
static void add(struct bench *b, int set, const struct way *way, const char *access, size_t count)
{
	struct configuration *c = &b->list[b->count++];

	c->set = set;
	c->access = access;
	c->order = way->name;
	c->run = way->run;
	c->work = work_of(b, set, count);
	c->per_pass = b->sets[set].key ? (double)count : (double)b->sets[set].length;
	c->expected = way->run(&c->work);
	c->ns = allocate((size_t)b->options.repetitions * sizeof(*c->ns), 0);
}

/* answer asks for every key once, and finds out how else it can be asked for. */
static void answer(struct bench *b, int set)
{
	const struct asking *a = b->options.algorithm->asks(&b->table, &b->sets[set]);
	size_t all = b->sets[set].count, hot = b->options.hot;
	struct work w = work_of(b, set, all);
	algo_u32 sum = a->answer(&w);

	for (int i = 0; i < MOST_WAYS && a->ways[i].name; i++) {
		if (b->sets[set].key && hot < all)
			add(b, set, &a->ways[i], "hot", hot);
		add(b, set, &a->ways[i], "all", all);
		/* Updates answer whether keys that were just added are there. */
		if (b->list[b->count - 1].expected != (strcmp(a->ways[i].name, "update") ? sum : (algo_u32)all)) {
			fprintf(stderr, "minne-procbench: %s lookups answer otherwise than the first ones\n", a->ways[i].name);
			exit(EXIT_WRONG);
		}
	}
}

static const char *byte_order(void)
{
	algo_u32 one = 1;

	return *(const char *)&one ? "little" : "big";
}

static void print_json(const struct bench *b)
{
	const struct options *o = &b->options;
	struct utsname machine;

	uname(&machine);
	printf("{\"program\":\"minne-procbench\",\"version\":1,\"machine\":\"%s\",\"bits\":%d,\"byte_order\":\"%s\",\"compiler\":\"%s\",\n",
	       machine.machine, (int)sizeof(void *) * 8, byte_order(), __VERSION__);
	printf("\"algorithm\":\"%s\",\"turned\":%s,\"memory\":{\"table\":%lu,\"keys\":%lu,\"state\":%lu,\"peak\":%lu},\n",
	       o->algorithm->name, b->table.turned ? "true" : "false", (unsigned long)b->table.bytes, (unsigned long)set_bytes(b),
	       (unsigned long)b->state_bytes, peak() * 1024);
	if (measure_clock)
		printf("\"clock\":\"%s\",\n", measure_clock);
	printf("\"sets\":[");
	for (int i = 0; i < o->set_count; i++)
		printf("%s\n{\"origin\":\"%s\",\"count\":%lu,\"bytes\":%lu,\"checksum\":\"%08x%08x\"}", i ? "," : "",
		       origin(&b->sets[i]), (unsigned long)b->sets[i].count,
		       (unsigned long)(b->sets[i].key ? b->sets[i].key : b->sets[i].length), b->sums[i].a, b->sums[i].b);
	printf("],\n\"results\":[");
	for (int i = 0; !o->check && i < b->count; i++) {
		const struct configuration *c = &b->list[i];

		printf("%s\n{\"set\":%d,\"access\":\"%s\",\"order\":\"%s\",\"per\":\"%s\",\"ns\":{\"median\":%.4g,\"low\":%.4g,\"high\":%.4g},\"repetitions\":[",
		       i ? "," : "", c->set, c->access, c->order, b->sets[c->set].key ? "key" : "byte", c->figure.median, c->figure.low, c->figure.high);
		for (int r = 0; r < o->repetitions; r++)
			printf("%s%.4g", r ? "," : "", c->ns[r]);
		printf("]}");
	}
	printf("]}\n");
}

static void print_text(const struct bench *b)
{
	const struct options *o = &b->options;

	printf("%s: table of %lu KiB%s, keys of %lu KiB, peak memory %lu KiB\n", o->algorithm->name,
	       (unsigned long)(b->table.bytes / 1024), b->table.turned ? " (of the other byte order)" : "",
	       (unsigned long)(set_bytes(b) / 1024), peak());
	for (int i = 0; i < o->set_count; i++)
		printf("answers to %s (%lu, %s): checksum %08x%08x\n", o->sets[i], (unsigned long)b->sets[i].count, origin(&b->sets[i]),
		       b->sums[i].a, b->sums[i].b);
	if (measure_clock && strcmp(measure_clock, "cpu"))
		printf("the kernel does not count CPU time finely: these times are right on an idle machine only\n");
	for (int i = 0; !o->check && i < b->count; i++) {
		const struct configuration *c = &b->list[i];
		const struct figure *f = &c->figure;

		printf("%-9s %-4s %-11s ", origin(&b->sets[c->set]), c->access, c->order);
		if (b->sets[c->set].key)
			printf("%8.2f ns (%.2f to %.2f)  %8.2f M/s\n", f->median, f->low, f->high, 1e3 / f->median);
		else
			printf("%8.3f ns per byte (%.3f to %.3f)  %8.1f MB/s\n", f->median, f->low, f->high, 1e3 / f->median);
	}
}

int main(int argc, char **argv)
{
	static struct bench b = { .options = { .repetitions = 9, .seconds = 4, .hot = 2048, .cpu = -1 } };
	const struct configuration *wrong = 0;

	read_options(&b.options, argc, argv);
	if (b.options.cpu >= 0)
		stay_on(b.options.cpu);
	load(&b);
	for (int i = 0; i < b.options.set_count; i++)
		answer(&b, i);
	if (!b.options.check)
		wrong = measure(b.list, b.count, b.options.repetitions, b.options.seconds);
	if (wrong) {
		fprintf(stderr, "minne-procbench: %s lookups of %s keys answered otherwise than before\n", wrong->order, wrong->access);
		return EXIT_WRONG;
	}
	if (b.options.json)
		print_json(&b);
	else
		print_text(&b);
	return fflush(stdout) || ferror(stdout) ? EXIT_REFUSED : 0;
}
