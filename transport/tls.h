// SPDX-License-Identifier: BSD-3-Clause
/* TLS contexts from a directory of PEM files with QEMU's names. TLS 1.3 only,
 * certificates required on both sides, no tickets, AES-128-GCM first. */
#ifndef TRANSPORT_TLS_H
#define TRANSPORT_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

struct tls; /* server and client context together; counted */

/* Loads ca-cert.pem, ca-crl.pem (if there), server-cert.pem, server-key.pem,
 * client-cert.pem and client-key.pem from dir. ERR_TLS names the file and why:
 * missing, unreadable, key does not fit, expired, not yet valid, no SAN,
 * readable by others (key). */
struct tls *tls_load(const char *dir, struct error *err);
struct tls *tls_ref(struct tls *tls);
void tls_unref(struct tls *tls); /* NULL is fine. ref/unref are thread-safe */

/* A name (SAN) of a certificate: "DNS:host-b", "IP:192.0.2.1", "URI:..." */
#define TLS_NAME_MAX_BYTES 256
#define TLS_NAMES_MAX 32

struct tls_names {
    size_t count;
    char name[TLS_NAMES_MAX][TLS_NAME_MAX_BYTES];
};

/* Whether identity ("host-b", "192.0.2.1", "URI:spiffe://..." or any of the
 * prefixed forms) is one of the names. DNS names compare without case, no
 * wildcards: an identity is one host. */
bool tls_names_have(const struct tls_names *names, const char *identity);

/* "DNS:a, DNS:b" for messages; cut with "..." when it does not fit. */
void tls_names_format(const struct tls_names *names, char *buf, size_t size);

#endif
