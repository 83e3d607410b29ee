// SPDX-License-Identifier: BSD-3-Clause
/* Certificates for tests. */
#include "tests/lib/pki.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void die(const char *what)
{
    fprintf(stderr, "pki: %s failed\n", what);
    exit(99);
}

static void run(const char *command)
{
    int status = system(command);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        die(command);
    }
}

char *pki_new(void)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = malloc(4096);

    if (!dir) {
        die("malloc");
    }
    snprintf(dir, 4096, "%s/migproxy-pki-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        die(dir);
    }
    return dir;
}

void pki_free(char *dir)
{
    char command[4200];

    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    run(command);
    free(dir);
}

void pki_make(const char *dir, const char *options, const char *names)
{
    const char *source = getenv("srcdir");
    char command[8192];

    snprintf(command, sizeof(command), "'%s'/scripts/pki %s '%s' %s",
             source ? source : ".", options, dir, names);
    run(command);
}

void pki_shell(const char *dir, const char *command)
{
    char line[8192];

    snprintf(line, sizeof(line), "cd '%s' && { %s; }", dir, command);
    run(line);
}

const char *pki_path(const char *dir, const char *name)
{
    static char paths[8][4352];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}
