// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* read_all reads a file into memory of exactly its size, so that a sanitizer sees what is read behind it. */
static void *read_all(const char *name, size_t *size)
{
	FILE *f = fopen(name, "rb");
	void *data;
	long end;

	if (!f || fseek(f, 0, SEEK_END) || (end = ftell(f)) <= 0 || fseek(f, 0, SEEK_SET)) {
		perror(name);
		exit(1);
	}
	*size = (size_t)end;
	data = malloc(*size);
	if (!data || fread(data, 1, *size, f) != *size) {
		perror(name);
		exit(1);
	}
	fclose(f);
	return data;
}
