// SPDX-License-Identifier: BSD-3-Clause
/* Ids of migrations. */
#include "util/id.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

bool id_is_valid(const char *text)
{
    size_t size =
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
                     "wxyz0123456789._-");

    return size > 0 && size <= ID_MAX && text[size] == '\0' &&
           strcmp(text, ".") && strcmp(text, "..");
}

void id_make(char id[ID_MAX + 1])
{
    unsigned char random[6];

    /* fails only before the kernel has gathered randomness once, and does not
     * block for more after that */
    while (getrandom(random, sizeof(random), 0) != sizeof(random)) {
    }
    snprintf(id, ID_MAX + 1, "m%02x%02x%02x%02x%02x%02x", random[0], random[1],
             random[2], random[3], random[4], random[5]);
}
