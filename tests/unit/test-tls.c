// SPDX-License-Identifier: BSD-3-Clause
/* Loading certificates: what is wrong with a file is found at load and named;
 * names compare as hosts do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/pki.h"
#include "transport/tls.h"
#include "util/clock.h"

static char *dir; /* one authority, hosts a and b */

static int make_dir(void **state)
{
    dir = pki_new();
    pki_make(dir, "", "a b");
    return 0;
}

static int remove_dir(void **state)
{
    pki_free(dir);
    return 0;
}

static void assert_loads(const char *host)
{
    struct error err = ERROR_INIT;
    struct tls *tls = tls_load(pki_path(dir, host), &err);

    if (!tls) {
        fail_msg("%s", err.text);
    }
    tls_unref(tls);
}

static void assert_refused(const char *host, const char *text)
{
    struct error err = ERROR_INIT;
    struct tls *tls = tls_load(pki_path(dir, host), &err);

    tls_unref(tls);
    if (tls || err.code != ERR_TLS || !strstr(err.text, text)) {
        fail_msg("\"%s\", expected \"%s\"", tls ? "loaded" : err.text, text);
    }
}

/* A copy of host a as host c, changed by a shell command. */
static void spoil(const char *command)
{
    pki_shell(dir, "rm -rf c && cp -a a c");
    pki_shell(pki_path(dir, "c"), command);
}

static void a_good_directory_loads(void **state)
{
    struct error err = ERROR_INIT;
    struct tls *tls = tls_load(pki_path(dir, "a"), &err);
    int64_t now = clock_wall_us(), day = (int64_t)86400 * 1000000;

    assert_non_null(tls);
    assert_in_range(tls_valid_until_us(tls) - now, 29 * day, 31 * day);
    assert_ptr_equal(tls_ref(tls), tls);
    tls_unref(tls);
    tls_unref(tls);
    assert_int_equal(err.code, ERR_NONE);
}

static void a_missing_file_is_named(void **state)
{
    static const char *const names[] = {"ca-cert.pem", "server-cert.pem",
                                        "server-key.pem", "client-cert.pem",
                                        "client-key.pem"};
    for (size_t i = 0; i < 5; i++) {
        char command[64], text[96];
        snprintf(command, sizeof(command), "rm %s", names[i]);
        snprintf(text, sizeof(text), "c/%s: No such file", names[i]);
        spoil(command);
        assert_refused("c", text);
    }
    assert_refused("nowhere", "nowhere/ca-cert.pem: No such file");
}

static void what_is_no_certificate_is_named(void **state)
{
    spoil("echo hello >ca-cert.pem");
    assert_refused("c", "ca-cert.pem: holds no PEM certificate");
    spoil("echo hello >client-cert.pem");
    assert_refused("c", "client-cert.pem: holds no PEM certificate");
    spoil("cat client-cert.pem >client-key.pem");
    assert_refused("c", "client-key.pem: holds no PEM private key");
    spoil("echo hello >ca-crl.pem");
    assert_refused("c", "ca-crl.pem: holds no PEM revocation list");
    spoil("cp client-cert.pem ca-cert.pem");
    assert_refused("c", "that is not an authority's");
    spoil("rm server-cert.pem && mkfifo server-cert.pem");
    assert_refused("c", "server-cert.pem: not a regular file");
    spoil("head -c 1100000 /dev/zero >>server-cert.pem");
    assert_refused("c", "of at most 1048576 bytes");
    spoil("for i in 1 2 3 4 5 6 7 8 9; do cat ../b/client-cert.pem; done "
          ">>server-cert.pem");
    assert_refused("c", "more than 8 certificates behind the first");
}

static void keys_must_fit_and_be_closed_to_others(void **state)
{
    spoil("cat ../b/server-key.pem >server-key.pem");
    assert_refused("c", "server-key.pem: does not fit server-cert.pem");
    spoil("chmod 0644 client-key.pem");
    assert_refused("c", "client-key.pem: mode is 0644");
    spoil("chmod 0640 client-key.pem");
    assert_loads("c");
    spoil("openssl pkcs8 -topk8 -in server-key.pem -passout pass:secret "
          "-out k && cat k >server-key.pem");
    assert_refused("c", "server-key.pem: is protected by a passphrase");
}

static void dates_are_named(void **state)
{
    pki_make(dir, "--expired", "old");
    assert_refused("old", "old/server-cert.pem: expired on 20");
    pki_make(dir, "--not-yet", "young");
    assert_refused("young", "young/server-cert.pem: not valid before 20");
    spoil("cat ../old/client-cert.pem >client-cert.pem");
    assert_refused("c", "client-cert.pem: expired on 20");
}

static void a_certificate_must_serve_its_role(void **state)
{
    pki_make(dir, "--swap-usage", "swapped");
    assert_refused("swapped", "server-cert.pem: its key usage does not allow "
                              "it to be a server's");
    pki_make(dir, "--ca other", "stranger");
    assert_refused("stranger", "server-cert.pem: does not pass under "
                               "ca-cert.pem: unable to get local issuer");
    pki_make(dir, "--san email:root@example.org", "nameless");
    assert_refused("nameless", "server-cert.pem: has no subject alternative");
}

/* Two authorities overlap while one takes over. */
static void several_authorities_are_trusted(void **state)
{
    pki_make(dir, "--ca next", "moved");
    pki_shell(dir, "cat ca/ca-cert.pem next/ca-cert.pem >moved/ca-cert.pem");
    assert_loads("moved");
}

static void a_revoked_certificate_is_named(void **state)
{
    char *own = pki_new(), *shared = dir;

    pki_make(own, "", "a b");
    pki_make(own, "--revoke", "b");
    dir = own;
    assert_loads("a");
    assert_refused("b", "server-cert.pem: does not pass under ca-cert.pem: "
                        "certificate revoked");
    dir = shared;
    pki_free(own);
}

static void names_compare_as_hosts_do(void **state)
{
    struct tls_names names = {
        .count = 5,
        .name = {"DNS:host-b.example", "IP:192.0.2.1", "IP:2001:db8::1",
                 "URI:spiffe://site/host-b", "DNS:*.wild.example"}};
    static const char *const yes[] = {
        "host-b.example",     "HOST-B.Example", "DNS:host-b.example",
        "192.0.2.1",          "IP:192.0.2.1",   "::ffff:192.0.2.1",
        "2001:db8:0:0:0::1",  "IP:2001:DB8::1", "URI:spiffe://site/host-b",
        "DNS:*.wild.example", "*.wild.example"};
    static const char *const no[] = {"host-b",
                                     "host-b.example.org",
                                     "IP:host-b.example",
                                     "192.0.2.2",
                                     "URI:spiffe://SITE/host-b",
                                     "spiffe://site/host-b",
                                     "DNS:192.0.2.1",
                                     "x.wild.example",
                                     "",
                                     "DNS:",
                                     "URI:",
                                     "IP:"};

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        assert_true(tls_names_have(&names, yes[i]));
    }
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
        assert_false(tls_names_have(&names, no[i]));
    }
}

static void names_are_cut_with_dots(void **state)
{
    struct tls_names names = {.count = 2, .name = {"DNS:a", "IP:192.0.2.1"}};
    char buf[64], small[10];

    tls_names_format(&names, buf, sizeof(buf));
    assert_string_equal(buf, "DNS:a, IP:192.0.2.1");
    tls_names_format(&names, small, sizeof(small));
    assert_string_equal(small, "DNS:a,...");
    names.count = 0;
    tls_names_format(&names, buf, sizeof(buf));
    assert_string_equal(buf, "no names");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_directory_loads),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(what_is_no_certificate_is_named),
        cmocka_unit_test(keys_must_fit_and_be_closed_to_others),
        cmocka_unit_test(dates_are_named),
        cmocka_unit_test(a_certificate_must_serve_its_role),
        cmocka_unit_test(several_authorities_are_trusted),
        cmocka_unit_test(a_revoked_certificate_is_named),
        cmocka_unit_test(names_compare_as_hosts_do),
        cmocka_unit_test(names_are_cut_with_dots),
    };
    return cmocka_run_group_tests_name("tls", tests, make_dir, remove_dir);
}
