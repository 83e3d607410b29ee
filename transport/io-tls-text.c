// SPDX-License-Identifier: BSD-3-Clause
/* What went wrong in TLS, in words for people at either end. */
#include "transport/io-tls-text.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "transport/tls.h"

/* "CN=host-b,O=Example"; RFC 2253 form, which escapes what cannot be printed.
 */
static void format_subject(X509 *cert, char *buf, size_t size)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text;

    buf[0] = '\0';
    if (bio && X509_NAME_print_ex(bio, X509_get_subject_name(cert), 0,
                                  XN_FLAG_RFC2253) >= 0) {
        long len = BIO_get_mem_data(bio, &text);
        snprintf(buf, size, "%.*s", (int)len, text);
    }
    BIO_free(bio);
}

static const ASN1_TIME *date_of(X509_STORE_CTX *verify, X509 *cert, int code)
{
    X509_CRL *crl = X509_STORE_CTX_get0_current_crl(verify);

    switch (code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return X509_get0_notAfter(cert);
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return X509_get0_notBefore(cert);
    case X509_V_ERR_CRL_HAS_EXPIRED:
        return crl ? X509_CRL_get0_nextUpdate(crl) : NULL;
    default:
        return NULL;
    }
}

/* " (2026-11-30 17:51:05 UTC)", or nothing. */
static void format_date(const ASN1_TIME *time, char *buf, size_t size)
{
    struct tm tm;

    buf[0] = '\0';
    if (time && ASN1_TIME_to_tm(time, &tm) == 1) {
        strftime(buf, size, " (%Y-%m-%d %H:%M:%S UTC)", &tm);
    }
}

void io_tls_text_refusal(struct x509_store_ctx_st *verify, char *buf,
                         size_t size)
{
    X509 *cert = X509_STORE_CTX_get_current_cert(verify);
    int code = X509_STORE_CTX_get_error(verify);
    char subject[96] = "", names_text[96] = "", date[40] = "";
    struct tls_names names;

    if (cert) {
        format_subject(cert, subject, sizeof(subject));
        format_date(date_of(verify, cert, code), date, sizeof(date));
        tls_names_read(cert, &names);
        tls_names_format(&names, names_text, sizeof(names_text));
    }
    snprintf(buf, size,
             "presented a certificate (%s; %s) that is refused: %s%s", subject,
             names_text, X509_verify_cert_error_string(code), date);
}

/* Alerts that are about our certificate. OpenSSL sends "bad certificate" for
 * one that is not yet valid. */
static const char *certificate_alert(int alert)
{
    switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
        return "bad certificate (not yet valid by its clock, or malformed)";
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
        return "wrong purpose (server and client certificate mixed up?)";
    case SSL_AD_CERTIFICATE_REVOKED:
        return "revoked";
    case SSL_AD_CERTIFICATE_EXPIRED:
        return "expired (or its revocation list is)";
    case SSL_AD_CERTIFICATE_UNKNOWN:
        return "not acceptable";
    case SSL_AD_UNKNOWN_CA:
        return "signed by an authority it does not know";
    case SSL_AD_CERTIFICATE_REQUIRED:
        return "none was presented";
    case SSL_AD_ACCESS_DENIED:
        return "access denied";
    default:
        return NULL;
    }
}

static void text_alert(int alert, struct error *err)
{
    const char *cause = certificate_alert(alert);

    if (cause) {
        error_set(err, ERR_TLS, "refused our certificate: %s", cause);
    } else if (alert == SSL_AD_PROTOCOL_VERSION) {
        error_set(err, ERR_TLS, "does not do TLS 1.3");
    } else {
        error_set(err, ERR_TLS, "ended TLS with alert %d (%s)", alert,
                  SSL_alert_desc_string_long(alert));
    }
}

static const char *reason_text(int reason)
{
    switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return "presented no certificate";
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return "speaks plain HTTP, not TLS";
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_TOO_SMALL:
        return "does not speak TLS";
    case SSL_R_UNSUPPORTED_PROTOCOL:
        return "does not do TLS 1.3";
    case SSL_R_NO_SHARED_CIPHER:
        return "has no cipher in common with this end";
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
        return "sent a record that does not decrypt (damaged on the way, or "
               "tampered with)";
    default:
        return NULL;
    }
}

void io_tls_text_failure(unsigned long ssl_error, struct error *err)
{
    int reason = ERR_GET_REASON(ssl_error);
    const char *text = reason_text(reason);

    if (ERR_GET_LIB(ssl_error) == ERR_LIB_SSL &&
        reason >= SSL_AD_REASON_OFFSET) {
        text_alert(reason - SSL_AD_REASON_OFFSET, err);
    } else if (ERR_GET_LIB(ssl_error) == ERR_LIB_SSL && text) {
        error_set(err, ERR_TLS, "%s", text);
    } else {
        text = ERR_reason_error_string(ssl_error);
        error_set(err, ERR_TLS, "broke TLS: %s", text ? text : "unknown error");
    }
}
