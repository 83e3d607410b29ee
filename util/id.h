// SPDX-License-Identifier: BSD-3-Clause
/* Ids of migrations: who may make one, and what may be one. */
#ifndef UTIL_ID_H
#define UTIL_ID_H

#include <stdbool.h>

#define ID_MAX 64 /* characters, NUL not counted */

/* Whether text can be an id: 1 to ID_MAX of A-Z a-z 0-9 . _ -, and nothing that
 * changes the meaning of a path it stands in. */
bool id_is_valid(const char *text);

/* Makes an id that no other migration has (48 random bits). */
void id_make(char id[ID_MAX + 1]);

#endif
