// SPDX-License-Identifier: BSD-3-Clause
/* A plain main() for a libFuzzer entry: runs it over files, reports as TAP.
 *
 * usage: fuzz-X.t [FILE|DIRECTORY]...
 * Without arguments: the directories of REPLAY_DIRECTORIES (string literals
 * with commas, set where the program is built), relative to $srcdir. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/cleanup.h"

#define INPUT_BYTES_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned count;

static void run_file(const char *path)
{
    CLEANUP_FREE uint8_t *bytes = malloc(INPUT_BYTES_MAX);
    FILE *file = fopen(path, "rb");

    if (!bytes || !file) {
        printf("Bail out! %s: %s\n", path, strerror(errno));
        exit(1);
    }
    size_t len = fread(bytes, 1, INPUT_BYTES_MAX, file);
    fclose(file);
    /* just the size that is used: a memory checker sees what is beyond */
    CLEANUP_FREE uint8_t *copy = malloc(len + (len == 0));
    if (!copy) {
        printf("Bail out! no memory\n");
        exit(1);
    }
    memcpy(copy, bytes, len);
    LLVMFuzzerTestOneInput(copy, len);
    printf("ok %u - %s\n", ++count, path);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void run(const char *path)
{
    struct dirent **entries;
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        run_file(path);
        return;
    }
    int n = scandir(path, &entries, is_visible, alphasort);
    if (n < 0) {
        printf("Bail out! %s: %s\n", path, strerror(errno));
        exit(1);
    }
    for (int i = 0; i < n; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        run(inner);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    static const char *const directories[] = {REPLAY_DIRECTORIES};
    const char *srcdir = getenv("srcdir");

    for (int i = 1; i < argc; i++) {
        run(argv[i]);
    }
    for (size_t i = 0;
         argc == 1 && i < sizeof directories / sizeof *directories; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", srcdir ? srcdir : ".",
                 directories[i]);
        run(path);
    }
    printf("1..%u\n", count);
    return 0;
}
