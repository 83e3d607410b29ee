// SPDX-License-Identifier: BSD-3-Clause
/* TLS contexts from a directory of PEM files with QEMU's names. TLS 1.3 only,
 * certificates required on both sides, no tickets, AES-128-GCM first. To
 * reload, load a new struct tls and use it for new lanes. */
#ifndef TRANSPORT_TLS_H
#define TRANSPORT_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct tls; /* server and client context together; counted */

/* Loads ca-cert.pem, ca-crl.pem (if there), server-cert.pem, server-key.pem,
 * client-cert.pem and client-key.pem from dir. ERR_TLS names the file and why:
 * missing, unreadable, key does not fit, expired or not yet valid (with the
 * date), no SAN, wrong purpose, not signed by the CA, revoked, key open to
 * others or protected by a passphrase. */
struct tls *tls_load(const char *dir, struct error *err);
struct tls *tls_ref(struct tls *tls);
void tls_unref(struct tls *tls); /* NULL is fine. ref/unref are thread-safe */

/* Wall clock, microseconds since the epoch, when the first of the certificates
 * or the CRL ends. */
int64_t tls_valid_until_us(const struct tls *tls);

/* Fills out with random bytes fit for secrets. False: there are none. */
bool tls_random(void *out, size_t len_bytes);

/* Compares secrets in a time that does not tell where they differ. */
bool tls_is_same_secret(const void *a, const void *b, size_t len_bytes);

/* A name (SAN) of a certificate: "DNS:host-b", "IP:192.0.2.1", "URI:..." */
#define TLS_NAME_MAX_BYTES 256
#define TLS_NAMES_MAX 32

/* Of a certificate with more names than TLS_NAMES_MAX the first ones are
 * known; names that are longer than TLS_NAME_MAX_BYTES - 1 or not printable
 * ASCII are left out. */
struct tls_names {
    size_t count;
    char name[TLS_NAMES_MAX][TLS_NAME_MAX_BYTES];
};

/* Whether identity ("host-b", "192.0.2.1", "URI:spiffe://..." or any of the
 * prefixed forms) is one of the names. DNS names compare without case, no
 * wildcards: an identity is one host. IP addresses compare as numbers. */
bool tls_names_have(const struct tls_names *names, const char *identity);

/* "DNS:a, DNS:b" for messages; cut with "..." when it does not fit. "no names"
 * when there are none. */
void tls_names_format(const struct tls_names *names, char *buf, size_t size);

/* For io-tls.c, the only other user of OpenSSL. */
struct ssl_ctx_st;
struct x509_st;
struct bio_method_st;
struct ssl_ctx_st *tls_context(const struct tls *tls, bool server);
const struct bio_method_st *tls_bio_method(const struct tls *tls);
void tls_names_read(const struct x509_st *cert, struct tls_names *ret_names);

#endif
