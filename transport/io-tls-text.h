// SPDX-License-Identifier: BSD-3-Clause
/* What went wrong in TLS, in words for people at either end. */
#ifndef TRANSPORT_IO_TLS_TEXT_H
#define TRANSPORT_IO_TLS_TEXT_H

#include <stddef.h>

#include "util/error.h"

#define IO_TLS_REFUSAL_BYTES 400

struct x509_store_ctx_st;

/* Why a certificate does not verify, with its names, subject and dates. */
void io_tls_text_refusal(struct x509_store_ctx_st *verify, char *buf,
                         size_t size);

/* An entry of OpenSSL's error queue as ERR_TLS. An alert from the peer says in
 * words that our certificate was refused, and why. */
void io_tls_text_failure(unsigned long ssl_error, struct error *err);

#endif
