// SPDX-License-Identifier: BSD-3-Clause
/* The names a certificate presents (SAN), and who they are. */
#include "transport/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/cleanup.h"

/* Names go into logs and messages, and an embedded NUL must not end one early:
 * "host-a\0.evil.example" is not host-a. */
static bool is_printable(const unsigned char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return len > 0;
}

static void add_text(struct tls_names *names, const char *prefix,
                     const ASN1_STRING *value)
{
    const unsigned char *text = ASN1_STRING_get0_data(value);
    size_t len = (size_t)ASN1_STRING_length(value);

    if (is_printable(text, len) && strlen(prefix) + len < TLS_NAME_MAX_BYTES) {
        snprintf(names->name[names->count++], TLS_NAME_MAX_BYTES, "%s%.*s",
                 prefix, (int)len, (const char *)text);
    }
}

static void add_address(struct tls_names *names, const ASN1_STRING *value)
{
    const unsigned char *bytes = ASN1_STRING_get0_data(value);
    int len = ASN1_STRING_length(value);
    char text[INET6_ADDRSTRLEN];

    if ((len == 4 && inet_ntop(AF_INET, bytes, text, sizeof(text))) ||
        (len == 16 && inet_ntop(AF_INET6, bytes, text, sizeof(text)))) {
        snprintf(names->name[names->count++], TLS_NAME_MAX_BYTES, "IP:%s",
                 text);
    }
}

void tls_names_read(const struct x509_st *cert, struct tls_names *ret_names)
{
    GENERAL_NAMES *list =
        X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

    ret_names->count = 0;
    for (int i = 0; list && i < sk_GENERAL_NAME_num(list) &&
                    ret_names->count < TLS_NAMES_MAX;
         i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(list, i);
        if (name->type == GEN_DNS) {
            add_text(ret_names, "DNS:", name->d.dNSName);
        } else if (name->type == GEN_URI) {
            add_text(ret_names, "URI:", name->d.uniformResourceIdentifier);
        } else if (name->type == GEN_IPADD) {
            add_address(ret_names, name->d.iPAddress);
        }
    }
    GENERAL_NAMES_free(list);
}

/* An IPv4 address as IPv6 (mapped), so that two spellings compare as numbers.
 */
static bool parse_ip(const char *text, struct in6_addr *ret_address)
{
    struct in_addr v4;

    if (inet_pton(AF_INET6, text, ret_address) == 1) {
        return true;
    }
    if (inet_pton(AF_INET, text, &v4) != 1) {
        return false;
    }
    memset(ret_address, 0, sizeof(*ret_address));
    ret_address->s6_addr[10] = 0xff;
    ret_address->s6_addr[11] = 0xff;
    memcpy(ret_address->s6_addr + 12, &v4, sizeof(v4));
    return true;
}

/* What follows prefix in text, or NULL. */
static const char *skip_prefix(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

static bool have_ip(const struct tls_names *names,
                    const struct in6_addr *address)
{
    for (size_t i = 0; i < names->count; i++) {
        const char *text = skip_prefix(names->name[i], "IP:");
        struct in6_addr other;
        if (text && parse_ip(text, &other) &&
            IN6_ARE_ADDR_EQUAL(&other, address)) {
            return true;
        }
    }
    return false;
}

static bool have_text(const struct tls_names *names, const char *prefix,
                      const char *value,
                      int (*compare)(const char *, const char *))
{
    for (size_t i = 0; i < names->count; i++) {
        const char *text = skip_prefix(names->name[i], prefix);
        if (text && compare(text, value) == 0) {
            return true;
        }
    }
    return false;
}

bool tls_names_have(const struct tls_names *names, const char *identity)
{
    const char *uri = skip_prefix(identity, "URI:");
    const char *dns = skip_prefix(identity, "DNS:");
    const char *ip = skip_prefix(identity, "IP:");
    struct in6_addr address;

    if (uri) {
        return have_text(names, "URI:", uri, strcmp);
    }
    if (ip) {
        return parse_ip(ip, &address) && have_ip(names, &address);
    }
    if (!dns && parse_ip(identity, &address)) {
        return have_ip(names, &address);
    }
    return have_text(names, "DNS:", dns ? dns : identity, strcasecmp);
}

void tls_names_format(const struct tls_names *names, char *buf, size_t size)
{
    size_t used = 0;

    snprintf(buf, size, "no names");
    for (size_t i = 0; i < names->count; i++) {
        int n = snprintf(buf + used, size - used, "%s%s", i ? ", " : "",
                         names->name[i]);
        if (n < 0 || (size_t)n >= size - used) {
            if (size >= 4) {
                memcpy(buf + size - 4, "...", 4);
            }
            return;
        }
        used += (size_t)n;
    }
}
