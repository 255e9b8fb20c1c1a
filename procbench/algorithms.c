/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The algorithms that can be measured.
 */
#include "procbench.h"

#include <string.h>

const struct algorithm *const algorithms[] = {
	&bloom_algorithm, &counting_algorithm, &tree_bitmap_algorithm, &shape_shifting_algorithm, &d2fa_algorithm,
	&hybrid_algorithm, &range_algorithm, &direct24_algorithm, &staged16_algorithm, 0,
};

const struct algorithm *algorithm_named(const char *name)
{
	for (int i = 0; algorithms[i]; i++)
		if (!strcmp(algorithms[i]->name, name))
			return algorithms[i];
	return 0;
}
