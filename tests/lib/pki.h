// SPDX-License-Identifier: BSD-3-Clause
/* Certificates for tests, made by scripts/pki in a directory of their own. */
#ifndef TESTS_LIB_PKI_H
#define TESTS_LIB_PKI_H

/* A new empty directory. Ends the process with a message when anything fails,
 * as all functions here. Free with pki_free(), which removes it. */
char *pki_new(void);
void pki_free(char *dir);

/* Runs scripts/pki OPTIONS DIR NAMES (words are split). */
void pki_make(const char *dir, const char *options, const char *names);

/* Runs a shell command in the directory. */
void pki_shell(const char *dir, const char *command);

/* "DIR/name", valid until the next but seven calls. */
const char *pki_path(const char *dir, const char *name);

#endif
