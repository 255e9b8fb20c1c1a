/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Tables, keys and payload are read from files, or from standard input, straight into the memory in which they are used;
 * a small router has no room for them twice.
 *
 * A table image is algo.h's, of either byte order. The files of keys and payload are the same for all CPUs: their numbers
 * are of 32 bits, the upper byte first.
 *
 *	keys      "mnk1", bytes of a key (1 to 64), number of keys, where they come from (0 not told,
 *	          1 random, 2 from the table); then the keys, each filled up with zeros to a multiple of 4 bytes. Addresses
 *	          are in network byte order
 *	payload   "mnp1", number of records, number of bytes that follow, 0; then records: length, bytes, zeros
 *	          up to a multiple of 4 bytes. A record is a stream: patterns are looked for in each by itself
 *
 * The router's own structures have images without a header; in files they follow one of 8 words, in the byte order
 * of the CPU: 0x6d6e6631, structure (0 ranges, 1 DIR-24-8, 2 staged16), bits of the root, words of the image, CRC-32C of the
 * image, three zeros.
 */
#define _GNU_SOURCE
#include "procbench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/image.h"

#define ROUTER_MAGIC 0x6d6e6631U
#define ROUTER_WORDS 8
#define ROUTER_SLACK 256 /* bytes behind an image: FIB_SLACK of bpf/fib_range.h */
#define LINE 64
#define HUGE_PAGE ((size_t)2 << 20)

static const char cut_short[] = "it is shorter than its header tells: it was cut short";

void refuse(const char *file, const char *why)
{
	fprintf(stderr, "minne-procbench: %s: %s\n", strcmp(file, "-") ? file : "standard input", why);
	exit(1);
}

void *allocate(size_t bytes, int huge)
{
	void *memory;
	size_t align = huge ? HUGE_PAGE : LINE;
	size_t rounded = (bytes + align - 1) / align * align;

	if (rounded < bytes || posix_memalign(&memory, align, rounded ? rounded : align)) {
		fprintf(stderr, "minne-procbench: no memory for %lu bytes\n", (unsigned long)bytes);
		exit(1);
	}
#ifdef MADV_HUGEPAGE
	if (huge)
		madvise(memory, rounded, MADV_HUGEPAGE); /* else small pages: slower, not wrong */
#endif
	return memory;
}

static int open_file(const char *file)
{
	int fd = strcmp(file, "-") ? open(file, O_RDONLY) : STDIN_FILENO;

	if (fd < 0)
		refuse(file, strerror(errno));
	return fd;
}

/* expect refuses a file that has fewer bytes left than its header tells, before memory is asked for; pipes are believed. */
static void expect(int fd, const char *file, size_t bytes)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	struct stat st;

	if (at >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && (st.st_size < at || (uint64_t)(st.st_size - at) < bytes))
		refuse(file, cut_short);
}

static size_t read_some(int fd, const char *file, void *to, size_t bytes)
{
	size_t have = 0;

	while (have < bytes) {
		ssize_t n = read(fd, (char *)to + have, bytes - have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			refuse(file, strerror(errno));
		if (!n)
			break;
		have += (size_t)n;
	}
	return have;
}

static void read_all(int fd, const char *file, void *to, size_t bytes)
{
	if (read_some(fd, file, to, bytes) != bytes)
		refuse(file, cut_short);
}

static void close_end(int fd, const char *file)
{
	char more;

	if (read_some(fd, file, &more, 1))
		refuse(file, "it is longer than its header tells");
	if (fd != STDIN_FILENO)
		close(fd);
}

static void turn(algo_u32 *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		words[i] = algo_turn(words[i]);
}

static void load_image(int fd, const char *file, const struct algorithm *a, int huge, struct table *t)
{
	algo_u32 head[ALGO_HEAD_END];
	enum algo_image_fault fault;
	algo_u32 words;

	if (read_some(fd, file, head, sizeof(head)) != sizeof(head))
		refuse(file, "it is shorter than the header of a table image");
	fault = algo_image_head(head, a->kind);
	if (fault == ALGO_IMAGE_TURNED) {
		t->turned = 1;
		turn(head, ALGO_HEAD_END);
		fault = algo_image_head(head, a->kind);
	}
	if (fault != ALGO_IMAGE_GOOD)
		refuse(file, algo_image_says(fault));
	words = head[ALGO_HEAD_WORDS];
	t->bytes = (size_t)words * 4;
	expect(fd, file, t->bytes - sizeof(head));
	t->words = allocate(t->bytes, huge);
	memcpy(t->words, head, sizeof(head));
	read_all(fd, file, t->words + ALGO_HEAD_END, t->bytes - sizeof(head));
	if (t->turned)
		turn(t->words + ALGO_HEAD_END, words - ALGO_HEAD_END);
	fault = algo_image_body(t->words);
	if (fault != ALGO_IMAGE_GOOD)
		refuse(file, algo_image_says(fault));
	t->view.mask = words - 1;
}

/* crc_bytes is CRC-32C of memory as it is, whatever the byte order. */
static algo_u32 crc_bytes(const algo_u32 *words, size_t count)
{
	algo_u32 crc = 0, one = 1, word;
	int big = !*(const unsigned char *)&one;

	for (size_t i = 0; i < count; i++) {
		word = big ? algo_turn(words[i]) : words[i];
		crc = algo_crc(crc, &word, 1);
	}
	return crc;
}

static void load_router(int fd, const char *file, int huge, struct table *t)
{
	algo_u32 head[ROUTER_WORDS], words;

	if (read_some(fd, file, head, sizeof(head)) != sizeof(head))
		refuse(file, "it is shorter than the header of a router's table");
	if (head[0] == algo_turn(ROUTER_MAGIC))
		refuse(file, algo_image_says(ALGO_IMAGE_TURNED));
	if (head[0] != ROUTER_MAGIC)
		refuse(file, "it does not begin as a router's table does");
	t->structure = head[1];
	t->root_bits = head[2];
	words = head[3];
	if (words > ALGO_IMAGE_MOST || words < 1U << 10 || ((words & (words - 1)) && words != ROUTER_DIRECT24_WORDS))
		refuse(file, algo_image_says(ALGO_IMAGE_SIZE));
	t->bytes = (size_t)words * 4 + ROUTER_SLACK;
	expect(fd, file, (size_t)words * 4);
	t->words = allocate(t->bytes, huge);
	read_all(fd, file, t->words, (size_t)words * 4);
	memset(t->words + words, 0, ROUTER_SLACK);
	if (crc_bytes(t->words, words) != head[4])
		refuse(file, algo_image_says(ALGO_IMAGE_CHECKSUM));
	t->view.mask = words - 1;
}

void load_table(const char *file, const struct algorithm *a, int huge, struct table *t)
{
	int fd = open_file(file);

	memset(t, 0, sizeof(*t));
	if (a->kind)
		load_image(fd, file, a, huge, t);
	else
		load_router(fd, file, huge, t);
	t->view.words = t->words;
	close_end(fd, file);
}

static algo_u32 number(const unsigned char *b)
{
	return (algo_u32)b[0] << 24 | (algo_u32)b[1] << 16 | (algo_u32)b[2] << 8 | b[3];
}

/* check_records goes through a payload and tells whether its records fill it. Their lengths become numbers of this CPU. */
static int check_records(struct set *s, size_t bytes)
{
	unsigned char *data = s->data;
	size_t at = 0;

	for (size_t i = 0; i < s->count; i++) {
		algo_u32 length;

		if (bytes - at < 4)
			return 0;
		length = number(data + at);
		memcpy(data + at, &length, 4);
		at += 4;
		if (length > bytes - at || ((size_t)length + 3) / 4 * 4 > bytes - at)
			return 0;
		at += ((size_t)length + 3) / 4 * 4;
		s->length += length;
	}
	return at == bytes;
}

void load_set(const char *file, const struct algorithm *a, struct set *s)
{
	unsigned char head[16];
	int fd = open_file(file);

	memset(s, 0, sizeof(*s));
	if (read_some(fd, file, head, sizeof(head)) != sizeof(head))
		refuse(file, "it is shorter than the header of a file of keys or payload");
	if (memcmp(head, a->payload ? "mnp1" : "mnk1", 4))
		refuse(file, a->payload ? "it does not begin as a file of payload does (mnp1)" : "it does not begin as a file of keys does (mnk1)");
	if (a->payload) {
		s->count = number(head + 4);
		s->bytes = number(head + 8);
	} else {
		s->key = number(head + 4);
		s->count = number(head + 8);
		s->origin = number(head + 12);
		if (!s->key || s->key > 64)
			refuse(file, "its keys are not of 1 to 64 bytes");
		s->stride = (s->key + 3) / 4 * 4;
		if (s->count > ((size_t)-1 >> 1) / s->stride)
			refuse(file, "it has more keys than there is memory");
		s->bytes = s->count * s->stride;
	}
	if (!s->count)
		refuse(file, "it is empty");
	expect(fd, file, s->bytes);
	s->data = allocate(s->bytes, 0);
	read_all(fd, file, s->data, s->bytes);
	close_end(fd, file);
	if (a->payload && !check_records(s, s->bytes))
		refuse(file, "its records don't fill it as its header tells");
	if (a->payload && !s->length)
		refuse(file, "it is empty");
}
