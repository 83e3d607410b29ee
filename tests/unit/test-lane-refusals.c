// SPDX-License-Identifier: BSD-3-Clause
/* Lanes: whoever should not get in does not, and both ends learn why. The other
 * end is OpenSSL on a blocking socket in a thread, which presents what it is
 * told to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>

#include "tests/lib/lanes.h"
#include "tests/lib/pki.h"

static char *dir;
static struct tls *tls_a; /* host-a, trusts the authority */
static struct loop *loop;
static struct lane_params params = {.handshake_timeout = 20 * MP_SECOND};

/* The other end. */
struct raw {
    pthread_t thread;
    int fd;
    bool server;
    const char *host;     /* whose files; NULL: no certificate, no TLS */
    const char *cert;     /* "client-cert", NULL: none */
    const char *key;      /* "client-key" */
    int max_version;      /* of TLS; 0: any */
    int refuses_with;     /* X509_V_ERR_*, 0: accepts anybody */
    const char *says;     /* instead of TLS */
    const uint8_t *sends; /* through TLS */
    size_t sends_bytes;
    bool hangs_up;      /* after that */
    int alert;          /* that came, 0: none */
    char received[600]; /* what came through TLS, or (says) without */
    size_t received_bytes;
};

static int verify_cb(int ok, X509_STORE_CTX *verify)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(verify,
                                          SSL_get_ex_data_X509_STORE_CTX_idx());
    struct raw *raw = SSL_get_app_data(ssl);

    X509_STORE_CTX_set_error(verify, raw->refuses_with);
    return raw->refuses_with == 0;
}

static SSL_CTX *raw_context(const struct raw *raw)
{
    char name[64];
    SSL_CTX *ctx =
        SSL_CTX_new(raw->server ? TLS_server_method() : TLS_client_method());

    if (raw->max_version) {
        SSL_CTX_set_max_proto_version(ctx, raw->max_version);
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, verify_cb);
    if (raw->cert) {
        snprintf(name, sizeof(name), "%s/%s.pem", raw->host, raw->cert);
        SSL_CTX_use_certificate_file(ctx, pki_path(dir, name),
                                     SSL_FILETYPE_PEM);
        snprintf(name, sizeof(name), "%s/%s.pem", raw->host, raw->key);
        SSL_CTX_use_PrivateKey_file(ctx, pki_path(dir, name), SSL_FILETYPE_PEM);
    }
    return ctx;
}

static void speak_tls(struct raw *raw, SSL_CTX *ctx)
{
    SSL *ssl = SSL_new(ctx);
    int rc;

    SSL_set_fd(ssl, raw->fd);
    SSL_set_app_data(ssl, raw);
    ERR_clear_error();
    rc = raw->server ? SSL_accept(ssl) : SSL_connect(ssl);
    if (rc > 0 && raw->sends_bytes > 0) {
        rc = SSL_write(ssl, raw->sends, (int)raw->sends_bytes);
    }
    while (rc > 0 && !raw->hangs_up) {
        size_t space = sizeof(raw->received) - raw->received_bytes;
        rc = SSL_read(ssl, raw->received + raw->received_bytes, (int)space);
        raw->received_bytes += rc > 0 ? (size_t)rc : 0;
    }
    int reason = ERR_GET_REASON(ERR_peek_error());
    if (reason >= SSL_AD_REASON_OFFSET) {
        raw->alert = reason - SSL_AD_REASON_OFFSET;
    }
    SSL_free(ssl);
}

static void speak_plainly(struct raw *raw)
{
    ssize_t n = send(raw->fd, raw->says, strlen(raw->says), MSG_NOSIGNAL);
    while (n > 0) {
        size_t space = sizeof(raw->received) - raw->received_bytes;
        n = recv(raw->fd, raw->received + raw->received_bytes, space, 0);
        raw->received_bytes += n > 0 ? (size_t)n : 0;
    }
}

static void *raw_main(void *arg)
{
    struct raw *raw = arg;

    if (raw->says) {
        speak_plainly(raw);
    } else {
        SSL_CTX *ctx = raw_context(raw);
        speak_tls(raw, ctx);
        SSL_CTX_free(ctx);
    }
    close(raw->fd);
    return NULL;
}

static bool is_closed(void *arg)
{
    return ((struct end *)arg)->closings > 0;
}

/* Lets raw talk to a lane that accepts or dials, until the lane ends. */
static void meet(struct raw *raw, struct end *end, struct tls *tls)
{
    struct sock_address address, from;
    struct error err = ERROR_INIT;
    struct hello mine = lanes_hello(WIRE_LANE_BULK, "host-a");
    int listen_fd = lanes_listen(&address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    params.tls = tls;
    end->mine = mine;
    if (raw->server) {
        end->lane = lane_connect(loop, &address, "host-b", &mine, &params,
                                 &end_ops, end, &err);
        close(fd);
        raw->fd = lanes_accept(listen_fd, &from);
        fcntl(raw->fd, F_SETFL, 0);
    } else {
        assert_int_equal(
            connect(fd, (struct sockaddr *)&address.storage, address.length),
            0);
        raw->fd = fd;
        end->lane = lane_accept(loop, lanes_accept(listen_fd, &from), &from,
                                &params, &end_ops, end, &err);
    }
    close(listen_fd);
    assert_non_null(end->lane);
    assert_int_equal(pthread_create(&raw->thread, NULL, raw_main, raw), 0);
    lanes_run(loop, is_closed, end, 10, "end of the lane");
    pthread_join(raw->thread, NULL);
    assert_int_equal(end->closings, 1);
}

static void assert_error(const struct end *end, enum error_code code,
                         const char *text)
{
    if (end->err.code != code || !strstr(end->err.text, text)) {
        fail_msg("%s: \"%s\", expected %s: \"%s\"", error_class(end->err.code),
                 end->err.text, error_class(code), text);
    }
}

/* Certificates, as the acceptor sees them. ----------------------------------
 */

struct refusal {
    struct raw raw;
    enum error_code code;
    const char *text;
    int alert; /* that the other end gets */
};

static void check_refusal(const struct refusal *refusal, struct tls *tls)
{
    struct raw raw = refusal->raw;
    struct end end = {0};

    meet(&raw, &end, tls);
    assert_error(&end, refusal->code, refusal->text);
    assert_int_equal(end.hellos, 0);
    if (raw.alert != refusal->alert) {
        fail_msg("%s: the other end got alert %d, expected %d", refusal->text,
                 raw.alert, refusal->alert);
    }
}

#define CLIENT(HOST) .host = HOST, .cert = "client-cert", .key = "client-key"
#define SERVER(HOST)                                                           \
    .server = true, .host = HOST, .cert = "server-cert", .key = "server-key"

static void acceptor_refuses_bad_certificates(void **state)
{
    static const struct refusal cases[] = {
        {{.host = "host-b"},
         ERR_TLS,
         "presented no certificate",
         SSL_AD_CERTIFICATE_REQUIRED},
        {{CLIENT("old")},
         ERR_TLS,
         "presented a certificate (CN=old; DNS:old) that is refused: "
         "certificate has expired (20",
         SSL_AD_CERTIFICATE_EXPIRED},
        {{CLIENT("young")},
         ERR_TLS,
         "refused: certificate is not yet valid (20",
         SSL_AD_BAD_CERTIFICATE},
        {{CLIENT("stranger")},
         ERR_TLS,
         "(CN=stranger; DNS:stranger) that is refused: unable to get local "
         "issuer certificate",
         SSL_AD_UNKNOWN_CA},
        {{.host = "host-b", .cert = "server-cert", .key = "server-key"},
         ERR_TLS,
         "(CN=host-b; DNS:host-b) that is refused: unsuitable certificate "
         "purpose",
         SSL_AD_UNSUPPORTED_CERTIFICATE},
        {{CLIENT("host-b"), .max_version = TLS1_2_VERSION},
         ERR_TLS,
         "does not do TLS 1.3",
         SSL_AD_PROTOCOL_VERSION},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_refusal(&cases[i], tls_a);
    }
}

static void dialler_refuses_bad_certificates(void **state)
{
    static const struct refusal cases[] = {
        {{SERVER("old")},
         ERR_TLS,
         ", expected identity host-b: presented a certificate (CN=old; "
         "DNS:old) that is refused: certificate has expired (20",
         SSL_AD_CERTIFICATE_EXPIRED},
        {{SERVER("young")},
         ERR_TLS,
         "certificate is not yet valid (20",
         SSL_AD_BAD_CERTIFICATE},
        {{SERVER("stranger")},
         ERR_TLS,
         ", expected identity host-b: presented a certificate (CN=stranger; "
         "DNS:stranger) that is refused: unable to get local",
         SSL_AD_UNKNOWN_CA},
        {{.server = true,
          .host = "host-b",
          .cert = "client-cert",
          .key = "client-key"},
         ERR_TLS,
         "unsuitable certificate purpose",
         SSL_AD_UNSUPPORTED_CERTIFICATE},
        {{SERVER("host-b"), .max_version = TLS1_2_VERSION},
         ERR_TLS,
         "does not do TLS 1.3",
         0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_refusal(&cases[i], tls_a);
    }
}

/* The other end refuses ours: TLS gives it one word, we give people a text. */
static void we_learn_why_we_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {{SERVER("host-b"), .refuses_with = X509_V_ERR_CERT_HAS_EXPIRED},
         ERR_TLS,
         "refused our certificate: expired",
         0},
        {{SERVER("host-b"), .refuses_with = X509_V_ERR_CERT_REVOKED},
         ERR_TLS,
         "refused our certificate: revoked",
         0},
        {{SERVER("host-b"),
          .refuses_with = X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY},
         ERR_TLS,
         "refused our certificate: signed by an authority it does not know",
         0},
        {{SERVER("host-b"), .refuses_with = X509_V_ERR_CERT_NOT_YET_VALID},
         ERR_TLS,
         "refused our certificate: bad certificate (not yet valid by",
         0},
        {{CLIENT("host-b"), .refuses_with = X509_V_ERR_INVALID_PURPOSE},
         ERR_TLS,
         "refused our certificate: wrong purpose",
         0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_refusal(&cases[i], tls_a);
    }
}

static void a_revoked_certificate_is_refused(void **state)
{
    static const struct refusal client = {{CLIENT("host-r")},
                                          ERR_TLS,
                                          "(CN=host-r; DNS:host-r) that is "
                                          "refused: certificate revoked",
                                          SSL_AD_CERTIFICATE_REVOKED};
    static const struct refusal server = {{SERVER("host-r")},
                                          ERR_TLS,
                                          "refused: certificate revoked",
                                          SSL_AD_CERTIFICATE_REVOKED};
    struct error err = ERROR_INIT;
    char *shared = dir;

    dir = pki_new();
    pki_make(dir, "", "host-a host-r");
    pki_make(dir, "--revoke", "host-r");
    struct tls *tls = tls_load(pki_path(dir, "host-a"), &err);
    assert_non_null(tls);
    check_refusal(&client, tls);
    check_refusal(&server, tls);
    tls_unref(tls);
    pki_free(dir);
    dir = shared;
}

static void a_wrong_identity_is_named_at_both_ends(void **state)
{
    struct raw raw = {SERVER("host-c")};
    struct end end = {0};

    meet(&raw, &end, tls_a);
    assert_error(&end, ERR_TLS, "the peer at 127.0.0.1:");
    assert_error(&end, ERR_TLS,
                 "presented DNS:host-c, expected identity host-b");
    assert_int_equal(raw.received[0], WIRE_GOAWAY);
    assert_non_null(strstr(raw.received + WIRE_HEADER_BYTES,
                           "presented DNS:host-c, expected identity host-b"));
}

/* What is no peer at all. ---------------------------------------------------
 */

static void what_does_not_speak_tls_is_named(void **state)
{
    static const struct refusal cases[] = {
        {{.says = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
         ERR_TLS,
         "speaks plain HTTP, not TLS",
         0},
        {{.says = "\x01\x02\x03 some other protocol, long enough to see"},
         ERR_TLS,
         "does not speak TLS",
         0},
        {{.server = true, .says = "SSH-2.0-OpenSSH_9.2p1\r\n"},
         ERR_TLS,
         "127.0.0.1:",
         0},
        {{.server = true, .says = "HTTP/1.1 400 Bad Request\r\n\r\n"},
         ERR_TLS,
         "does not speak TLS",
         0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_refusal(&cases[i], tls_a);
    }
}

static void a_silent_peer_meets_the_deadline(void **state)
{
    static const struct refusal cases[] = {
        {{.says = "\x16"}, ERR_TIMEOUT, "no TLS handshake within ", 0},
        {{.server = true, .says = "\x16"}, ERR_TIMEOUT, "127.0.0.1:", 0},
        {{CLIENT("host-b")}, ERR_TIMEOUT, "no HELLO within ", 0},
        {{SERVER("host-b")}, ERR_TIMEOUT, "no HELLO within ", 0},
    };
    params.handshake_timeout = lanes_are_slow() ? 3 * MP_SECOND : 200 * MP_MS;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check_refusal(&cases[i], tls_a);
    }
    params.handshake_timeout = 20 * MP_SECOND;
}

static void nobody_listening_is_named(void **state)
{
    struct sock_address address;
    struct error err = ERROR_INIT;
    struct end end = {0};
    struct hello mine = lanes_hello(WIRE_LANE_BULK, "host-a");

    close(lanes_listen(&address));
    params.tls = tls_a;
    end.lane = lane_connect(loop, &address, "host-b", &mine, &params, &end_ops,
                            &end, &err);
    if (!end.lane) { /* loopback may say so at once */
        assert_int_equal(err.code, ERR_PEER_UNREACHABLE);
        return;
    }
    lanes_run(loop, is_closed, &end, 10, "end of the lane");
    assert_error(&end, ERR_PEER_UNREACHABLE, "connecting to 127.0.0.1:");
    assert_error(&end, ERR_PEER_UNREACHABLE, "Connection refused");
}

/* Peers that break the protocol. --------------------------------------------
 */

static size_t put_frame(uint8_t *out, const struct frame *frame,
                        const void *payload)
{
    frame_encode(frame, out);
    if (payload) {
        memcpy(out + WIRE_HEADER_BYTES, payload, frame->length_bytes);
        return WIRE_HEADER_BYTES + frame->length_bytes;
    }
    return WIRE_HEADER_BYTES;
}

static size_t put_hello(uint8_t *out, enum wire_lane kind)
{
    uint8_t text[WIRE_HELLO_MAX_BYTES];
    struct hello h = lanes_hello(kind, "host-b");
    struct frame frame = {.type = WIRE_HELLO,
                          .length_bytes = (uint32_t)hello_encode(&h, text)};
    return put_frame(out, &frame, text);
}

/* Sends a HELLO, if it should, and one frame; expects the lane to end with
 * text, which the other end gets too. */
static void check_abuse(bool hello, const struct frame *frame,
                        const char *payload, const char *text)
{
    uint8_t bytes[8192] = {0};
    struct raw raw = {CLIENT("host-b"), .sends = bytes};
    struct end end = {0};

    raw.sends_bytes = hello ? put_hello(bytes, WIRE_LANE_BULK) : 0;
    raw.sends_bytes += put_frame(bytes + raw.sends_bytes, frame, payload);
    meet(&raw, &end, tls_a);
    assert_error(&end, ERR_PROTOCOL, text);
    raw.received[sizeof(raw.received) - 1] = '\0';
    for (size_t i = 0; i < raw.received_bytes; i++) {
        if (raw.received[i] == '\0') {
            raw.received[i] = '.';
        }
    }
    if (!strstr(raw.received, text)) {
        fail_msg("the other end got \"%s\", expected \"%s\"", raw.received,
                 text);
    }
}

static void abuse_is_named_at_both_ends(void **state)
{
    const struct frame data = {
        .type = WIRE_DATA, .epoch = 1, .length_bytes = WIRE_DATA_MAX_BYTES + 1};
    const struct frame type = {.type = (enum wire_type)99};
    const struct frame ping = {.type = WIRE_PING};
    const struct frame hello = {.type = WIRE_HELLO,
                                .length_bytes = WIRE_HELLO_MAX_BYTES + 1};
    const struct frame bad_hello = {.type = WIRE_HELLO, .length_bytes = 4};
    const struct frame message = {.type = WIRE_MESSAGE, .length_bytes = 2};
    const struct frame again = {.type = WIRE_HELLO, .length_bytes = 4};

    check_abuse(true, &data, NULL,
                "DATA frame: payload length is 131041, allowed 1 to 131040");
    check_abuse(true, &type, NULL, "frame type 99 is not known");
    check_abuse(true, &message, "{}",
                "MESSAGE frame is not allowed on the bulk lane");
    check_abuse(true, &again, "abcd", "HELLO frame: this lane had one");
    check_abuse(false, &ping, NULL, "PING frame before HELLO");
    check_abuse(false, &hello, NULL,
                "HELLO frame: payload length is 4097, allowed 1 to 4096");
    check_abuse(false, &bad_hello, "abcd",
                "HELLO: tag 0x6162 has 25444 bytes, only 0 left");
}

static void a_peer_that_dies_in_mid_frame_is_a_lost_link(void **state)
{
    uint8_t bytes[8192] = {0};
    struct frame frame = {.type = WIRE_DATA, .epoch = 1, .length_bytes = 5000};
    struct raw raw = {CLIENT("host-b"), .sends = bytes, .hangs_up = true};
    struct end end = {0};

    raw.sends_bytes = put_hello(bytes, WIRE_LANE_BULK);
    raw.sends_bytes += put_frame(bytes + raw.sends_bytes, &frame, NULL);
    raw.sends_bytes += 1000;
    meet(&raw, &end, tls_a);
    assert_error(&end, ERR_LINK_LOST, "host-b (127.0.0.1:");
    assert_int_equal(end.frames, 1);
    assert_true(end.received_bytes < 5000);
}

static void a_dialler_refused_before_hello_gets_the_text(void **state)
{
    uint8_t bytes[600] = {0};
    static const char text[] = "too many\nlanes \xff";
    struct frame frame = {.type = WIRE_GOAWAY,
                          .offset = ERR_LIMIT,
                          .length_bytes = sizeof(text) - 1};
    struct raw raw = {SERVER("host-b"), .sends = bytes};
    struct end end = {0};

    raw.sends_bytes = put_frame(bytes, &frame, text);
    meet(&raw, &end, tls_a);
    assert_error(&end, ERR_LIMIT, ": too many?lanes ?");
    frame.offset = 9999;
    frame.length_bytes = 0;
    raw.received_bytes = 0;
    memset(&end, 0, sizeof(end));
    raw.sends_bytes = put_frame(bytes, &frame, NULL);
    meet(&raw, &end, tls_a);
    assert_error(&end, ERR_INTERNAL, ": ended the connection");
}

static void an_answer_for_another_lane_is_refused(void **state)
{
    uint8_t bytes[600] = {0};
    struct raw raw = {SERVER("host-b"), .sends = bytes};
    struct end end = {0};

    raw.sends_bytes = put_hello(bytes, WIRE_LANE_EXPRESS);
    meet(&raw, &end, tls_a);
    assert_error(&end, ERR_PROTOCOL, "the answer is for another lane");
    assert_int_equal(end.hellos, 0);
}

static int set_up(void **state)
{
    struct error err = ERROR_INIT;

    dir = pki_new();
    pki_make(dir, "", "host-a host-b host-c");
    pki_make(dir, "--expired", "old");
    pki_make(dir, "--not-yet", "young");
    pki_make(dir, "--ca other", "stranger");
    tls_a = tls_load(pki_path(dir, "host-a"), &err);
    loop = loop_new("test", &err);
    return tls_a && loop ? 0 : -1;
}

static int tear_down(void **state)
{
    loop_free(loop);
    tls_unref(tls_a);
    pki_free(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acceptor_refuses_bad_certificates),
        cmocka_unit_test(dialler_refuses_bad_certificates),
        cmocka_unit_test(we_learn_why_we_are_refused),
        cmocka_unit_test(a_revoked_certificate_is_refused),
        cmocka_unit_test(a_wrong_identity_is_named_at_both_ends),
        cmocka_unit_test(what_does_not_speak_tls_is_named),
        cmocka_unit_test(a_silent_peer_meets_the_deadline),
        cmocka_unit_test(nobody_listening_is_named),
        cmocka_unit_test(abuse_is_named_at_both_ends),
        cmocka_unit_test(a_peer_that_dies_in_mid_frame_is_a_lost_link),
        cmocka_unit_test(a_dialler_refused_before_hello_gets_the_text),
        cmocka_unit_test(an_answer_for_another_lane_is_refused),
    };
    signal(SIGPIPE, SIG_IGN); /* of the other end's OpenSSL */
    return cmocka_run_group_tests_name("lane-refusals", tests, set_up,
                                       tear_down);
}
