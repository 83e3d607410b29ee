// SPDX-License-Identifier: BSD-3-Clause
/* TLS contexts from a directory of PEM files. Everything that would make a
 * peer refuse us is found here, at start or reload, and named. */
#include "transport/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "transport/io-tls.h"
#include "util/cleanup.h"

#define FILE_MAX_BYTES (1 << 20)       /* a bundle of hundreds of CAs */
#define CHAIN_MAX_CERTS 8              /* behind our own certificate */
#define PEER_CHAIN_MAX_BYTES (1 << 16) /* what a peer may make us read */
#define CIPHERSUITES                                                           \
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"                           \
    "TLS_CHACHA20_POLY1305_SHA256"

struct tls {
    atomic_uint refs;
    SSL_CTX *server;
    SSL_CTX *client;
    BIO_METHOD *bio_method;
    int64_t valid_until_us;
};

/* What is gathered while loading. */
struct loader {
    const char *dir;
    X509_STORE *store;
    int64_t valid_until_us;
    struct error *err;
};

struct role {
    bool server;
    const char *cert_name;
    const char *key_name;
    const char *word;
    const char *verify_name; /* OpenSSL's set of checks for such a peer */
    int purpose;
};

static const struct role server_role = {
    true,     "server-cert.pem", "server-key.pem",
    "server", "ssl_server",      X509_PURPOSE_SSL_SERVER};
static const struct role client_role = {
    false,    "client-cert.pem", "client-key.pem",
    "client", "ssl_client",      X509_PURPOSE_SSL_CLIENT};

static void cleanup_bio(BIO **bio)
{
    BIO_free(*bio);
}

static void cleanup_x509(X509 **cert)
{
    X509_free(*cert);
}

static void cleanup_crl(X509_CRL **crl)
{
    X509_CRL_free(*crl);
}

static void cleanup_key(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}

static void cleanup_verify(X509_STORE_CTX **verify)
{
    X509_STORE_CTX_free(*verify);
}

/* The newest reason in OpenSSL's queue, for people. */
static const char *ssl_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "no reason given";
}

static int refuse(const struct loader *loader, const char *name,
                  const char *why)
{
    return error_set(loader->err, ERR_TLS, "%s/%s: %s", loader->dir, name, why);
}

static int64_t wall_us_of(const ASN1_TIME *time)
{
    struct tm tm;
    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) * 1000000
                                           : INT64_MAX;
}

static int refuse_date(const struct loader *loader, const char *name,
                       const char *what, const ASN1_TIME *time)
{
    struct tm tm;
    char date[32] = "an unreadable date";

    if (ASN1_TIME_to_tm(time, &tm) == 1) {
        strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
    }
    return error_set(loader->err, ERR_TLS, "%s/%s: %s %s", loader->dir, name,
                     what, date);
}

/* Checks from <= now <= until; until may be NULL (a CRL without end). */
static int check_dates(const struct loader *loader, const char *name,
                       const ASN1_TIME *from, const ASN1_TIME *until)
{
    if (X509_cmp_current_time(from) > 0) {
        return refuse_date(loader, name, "not valid before", from);
    }
    if (until && X509_cmp_current_time(until) < 0) {
        return refuse_date(loader, name, "expired on", until);
    }
    return 0;
}

static void note_end(struct loader *loader, int64_t until_us)
{
    if (until_us < loader->valid_until_us) {
        loader->valid_until_us = until_us;
    }
}

/* Opens DIR/name. With only_owner, others must have no rights to it. NULL with
 * *err set, or with errno ENOENT and *err untouched if optional. */
static BIO *open_file(const struct loader *loader, const char *name,
                      bool only_owner, bool optional)
{
    char path[4096];
    struct stat st;

    if (snprintf(path, sizeof(path), "%s/%s", loader->dir, name) >=
        (int)sizeof(path)) {
        refuse(loader, name, "path is too long");
        return NULL;
    }
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT && optional) {
        return NULL;
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_set_errno(loader->err, ERR_TLS, errno, "%s", path);
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES) {
        error_set(loader->err, ERR_TLS,
                  "%s: not a regular file of at most %d bytes", path,
                  FILE_MAX_BYTES);
        errno = EINVAL;
        return NULL;
    }
    if (only_owner && (st.st_mode & S_IRWXO)) {
        error_set(loader->err, ERR_TLS,
                  "%s: mode is %04o, a private key must be closed to others "
                  "(chmod o-rwx)",
                  path, st.st_mode & 07777);
        errno = EINVAL;
        return NULL;
    }
    FILE *file = fdopen(fd, "r");
    BIO *bio = file ? BIO_new_fp(file, BIO_CLOSE) : NULL;
    if (file) {
        steal_fd(&fd);
    }
    if (!bio) {
        if (file) {
            fclose(file);
        }
        error_set(loader->err, ERR_NO_MEMORY, "%s: out of memory", path);
        errno = ENOMEM;
    }
    return bio;
}

/* Never asks on a terminal. */
static int no_passphrase_cb(char *buf, int size, int writing, void *arg)
{
    bool *asked = arg;
    *asked = true;
    return -1;
}

/* Adds one authority and notes when it ends. */
static int add_ca(struct loader *loader, X509 *cert, int64_t *latest_us)
{
    int64_t until_us = wall_us_of(X509_get0_notAfter(cert));

    if (X509_check_ca(cert) == 0) {
        return refuse(loader, "ca-cert.pem",
                      "holds a certificate that is not an authority's");
    }
    if (X509_STORE_add_cert(loader->store, cert) != 1) {
        return refuse(loader, "ca-cert.pem", ssl_reason());
    }
    if (check_dates(loader, "ca-cert.pem", X509_get0_notBefore(cert),
                    X509_get0_notAfter(cert)) == 0 &&
        until_us > *latest_us) {
        *latest_us = until_us;
    }
    return 0;
}

/* All authorities in ca-cert.pem are trusted, so that two can overlap while
 * one takes over from the other; one that has ended does no harm as long as
 * there is another. */
static int load_ca(struct loader *loader)
{
    CLEANUP(cleanup_bio)
    BIO *bio = open_file(loader, "ca-cert.pem", false, false);
    int64_t latest_us = 0;
    size_t count = 0;

    if (!bio) {
        return -1;
    }
    for (;; count++) {
        CLEANUP(cleanup_x509)
        X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        if (!cert) {
            break;
        }
        if (add_ca(loader, cert, &latest_us) < 0) {
            return -1;
        }
    }
    if (count == 0) {
        return refuse(loader, "ca-cert.pem", "holds no PEM certificate");
    }
    if (latest_us == 0) {
        return -1; /* check_dates() said why for the last one */
    }
    ERR_clear_error(); /* the end of the file */
    note_end(loader, latest_us);
    return 0;
}

static int load_crl(struct loader *loader)
{
    size_t count = 0;

    errno = 0;
    CLEANUP(cleanup_bio)
    BIO *bio = open_file(loader, "ca-crl.pem", false, true);
    if (!bio) {
        return errno == ENOENT ? 0 : -1;
    }
    for (;;) {
        CLEANUP(cleanup_crl)
        X509_CRL *crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL);
        if (!crl) {
            break;
        }
        const ASN1_TIME *until = X509_CRL_get0_nextUpdate(crl);
        if (check_dates(loader, "ca-crl.pem", X509_CRL_get0_lastUpdate(crl),
                        until) < 0) {
            return -1;
        }
        if (X509_STORE_add_crl(loader->store, crl) != 1) {
            return refuse(loader, "ca-crl.pem", ssl_reason());
        }
        if (until) {
            note_end(loader, wall_us_of(until));
        }
        count++;
    }
    if (count == 0) {
        return refuse(loader, "ca-crl.pem", "holds no PEM revocation list");
    }
    ERR_clear_error();
    X509_STORE_set_flags(loader->store, X509_V_FLAG_CRL_CHECK);
    return 0;
}

static void set_limits(SSL_CTX *ctx)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_early_data(ctx, 0);
    SSL_CTX_set_read_ahead(ctx, 0);
    SSL_CTX_set_max_cert_list(ctx, PEER_CHAIN_MAX_BYTES);
    SSL_CTX_set_security_level(ctx, 2);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

static SSL_CTX *new_context(const struct loader *loader, bool server)
{
    SSL_CTX *ctx =
        SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());

    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(ctx, CIPHERSUITES) != 1) {
        error_set(loader->err, ERR_TLS, "OpenSSL cannot do TLS 1.3: %s",
                  ssl_reason());
        SSL_CTX_free(ctx);
        return NULL;
    }
    set_limits(ctx);
    SSL_CTX_set1_cert_store(ctx, loader->store);
    io_tls_set_verify(ctx);
    return ctx;
}

/* Certificates behind the first one in the file: the intermediate ones. */
static int load_chain(const struct loader *loader, const struct role *role,
                      BIO *bio, SSL_CTX *ctx)
{
    for (int count = 0;; count++) {
        CLEANUP(cleanup_x509)
        X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        if (!cert) {
            ERR_clear_error();
            return 0;
        }
        if (count == CHAIN_MAX_CERTS) {
            return error_set(
                loader->err, ERR_TLS,
                "%s/%s: more than %d certificates behind the first",
                loader->dir, role->cert_name, CHAIN_MAX_CERTS);
        }
        if (SSL_CTX_add1_chain_cert(ctx, cert) != 1) {
            return refuse(loader, role->cert_name, ssl_reason());
        }
    }
}

/* What a peer with the same CA and CRL will make of our certificate. */
static int check_chain(const struct loader *loader, const struct role *role,
                       SSL_CTX *ctx, X509 *cert)
{
    STACK_OF(X509) *chain = NULL;
    CLEANUP(cleanup_verify) X509_STORE_CTX *verify = X509_STORE_CTX_new();

    SSL_CTX_get0_chain_certs(ctx, &chain);
    if (!verify ||
        X509_STORE_CTX_init(verify, loader->store, cert, chain) != 1 ||
        X509_STORE_CTX_set_default(verify, role->verify_name) != 1) {
        return error_set(loader->err, ERR_NO_MEMORY, "%s/%s: out of memory",
                         loader->dir, role->cert_name);
    }
    if (X509_verify_cert(verify) != 1) {
        const char *why =
            X509_verify_cert_error_string(X509_STORE_CTX_get_error(verify));
        ERR_clear_error();
        return error_set(loader->err, ERR_TLS,
                         "%s/%s: does not pass under ca-cert.pem: %s",
                         loader->dir, role->cert_name, why);
    }
    return 0;
}

static int check_cert(struct loader *loader, const struct role *role,
                      X509 *cert)
{
    struct tls_names names;

    if (check_dates(loader, role->cert_name, X509_get0_notBefore(cert),
                    X509_get0_notAfter(cert)) < 0) {
        return -1;
    }
    note_end(loader, wall_us_of(X509_get0_notAfter(cert)));
    if (X509_check_purpose(cert, role->purpose, 0) != 1) {
        return error_set(loader->err, ERR_TLS,
                         "%s/%s: its key usage does not allow it to be a %s's",
                         loader->dir, role->cert_name, role->word);
    }
    tls_names_read(cert, &names);
    if (names.count == 0) {
        return refuse(loader, role->cert_name,
                      "has no subject alternative name (DNS, IP or URI), by "
                      "which peers would know this host");
    }
    return 0;
}

static int load_cert(struct loader *loader, const struct role *role,
                     SSL_CTX *ctx)
{
    CLEANUP(cleanup_bio)
    BIO *bio = open_file(loader, role->cert_name, false, false);
    if (!bio) {
        return -1;
    }
    CLEANUP(cleanup_x509) X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    if (!cert) {
        return refuse(loader, role->cert_name, "holds no PEM certificate");
    }
    if (check_cert(loader, role, cert) < 0) {
        return -1;
    }
    if (SSL_CTX_use_certificate(ctx, cert) != 1) {
        return refuse(loader, role->cert_name, ssl_reason());
    }
    if (load_chain(loader, role, bio, ctx) < 0) {
        return -1;
    }
    return check_chain(loader, role, ctx, cert);
}

static int load_key(const struct loader *loader, const struct role *role,
                    SSL_CTX *ctx)
{
    bool asked = false;
    CLEANUP(cleanup_bio)
    BIO *bio = open_file(loader, role->key_name, true, false);
    if (!bio) {
        return -1;
    }
    CLEANUP(cleanup_key)
    EVP_PKEY *key =
        PEM_read_bio_PrivateKey(bio, NULL, no_passphrase_cb, &asked);
    if (!key) {
        return refuse(loader, role->key_name,
                      asked ? "is protected by a passphrase, which a daemon "
                              "cannot be asked for"
                            : "holds no PEM private key");
    }
    X509 *cert = SSL_CTX_get0_certificate(ctx);
    if (X509_check_private_key(cert, key) != 1) {
        return error_set(loader->err, ERR_TLS, "%s/%s: does not fit %s",
                         loader->dir, role->key_name, role->cert_name);
    }
    if (SSL_CTX_use_PrivateKey(ctx, key) != 1) {
        return refuse(loader, role->key_name, ssl_reason());
    }
    return 0;
}

static SSL_CTX *load_role(struct loader *loader, const struct role *role)
{
    SSL_CTX *ctx = new_context(loader, role->server);

    if (ctx &&
        (load_cert(loader, role, ctx) < 0 || load_key(loader, role, ctx) < 0)) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

static int load_all(struct tls *tls, struct loader *loader)
{
    if (!loader->store) {
        return error_set(loader->err, ERR_NO_MEMORY, "%s: out of memory",
                         loader->dir);
    }
    if (load_ca(loader) < 0 || load_crl(loader) < 0) {
        return -1;
    }
    tls->server = load_role(loader, &server_role);
    tls->client = tls->server ? load_role(loader, &client_role) : NULL;
    tls->valid_until_us = loader->valid_until_us;
    return tls->client ? 0 : -1;
}

struct tls *tls_load(const char *dir, struct error *err)
{
    struct error why = ERROR_INIT;
    struct tls *tls = calloc(1, sizeof(*tls));
    BIO_METHOD *bio_method = io_tls_bio_method_new();

    if (!tls || !bio_method) {
        free(tls);
        BIO_meth_free(bio_method);
        error_set(err, ERR_NO_MEMORY, "%s: out of memory", dir);
        return NULL;
    }
    atomic_init(&tls->refs, 1);
    tls->bio_method = bio_method;
    struct loader loader = {.dir = dir,
                            .store = X509_STORE_new(),
                            .valid_until_us = INT64_MAX,
                            .err = &why};
    ERR_clear_error();
    int rc = load_all(tls, &loader);
    ERR_clear_error();
    X509_STORE_free(loader.store);
    if (rc < 0) {
        error_copy(err, &why);
        tls_unref(tls);
        return NULL;
    }
    return tls;
}

struct tls *tls_ref(struct tls *tls)
{
    atomic_fetch_add(&tls->refs, 1);
    return tls;
}

void tls_unref(struct tls *tls)
{
    if (tls && atomic_fetch_sub(&tls->refs, 1) == 1) {
        SSL_CTX_free(tls->server);
        SSL_CTX_free(tls->client);
        BIO_meth_free(tls->bio_method);
        free(tls);
    }
}

int64_t tls_valid_until_us(const struct tls *tls)
{
    return tls->valid_until_us;
}

struct ssl_ctx_st *tls_context(const struct tls *tls, bool server)
{
    return server ? tls->server : tls->client;
}

const struct bio_method_st *tls_bio_method(const struct tls *tls)
{
    return tls->bio_method;
}

bool tls_random(void *out, size_t len_bytes)
{
    return RAND_bytes(out, (int)len_bytes) == 1;
}

bool tls_is_same_secret(const void *a, const void *b, size_t len_bytes)
{
    return CRYPTO_memcmp(a, b, len_bytes) == 0;
}
