// SPDX-License-Identifier: BSD-3-Clause
/* Two daemons' peers in one process, over TLS on loopback, with a relay in each
 * direction of dialling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/peer.h"
#include "qmp/json-value.h"
#include "tests/lib/pki.h"
#include "tests/lib/relay.h"
#include "util/log.h"

#define HELD_MAX (PEER_REQUESTS_MAX + 8)
#define LIMIT_MS 30000 /* valgrind, busy machines */
#define LONG (LIMIT_MS * MP_MS)

struct end {
    struct loop *loop;
    struct conf *conf;
    struct tls *tls;
    struct peers *peers;
    struct relay *relay; /* in front of it */
    char address[32], relay_address[32];
    struct peer_request *held[HELD_MAX];
    unsigned held_count, requests, instances, lanes;
};

struct rig {
    char *pki;
    struct loop *loop;
    struct end a, b;
};

/* --- what an end does when it is asked ---------------------------------- */

static json_object *text_object(size_t bytes)
{
    json_object *object = json_object_new_object();
    char *text = malloc(bytes + 1);

    assert_non_null(text);
    memset(text, 'x', bytes);
    text[bytes] = '\0';
    json_object_object_add(object, "text", json_object_new_string(text));
    free(text);
    return object;
}

static void on_request(void *arg, struct peer_request *request)
{
    struct end *end = arg;
    const char *method = peer_request_method(request);
    struct error err = ERROR_INIT;

    end->requests++;
    if (!strcmp(method, "echo")) {
        peer_request_reply(request,
                           json_object_get(peer_request_params(request)));
    } else if (!strcmp(method, "fail")) {
        error_set(&err, ERR_CONFLICT, "not now, %s",
                  peer_request_peer(request));
        peer_request_fail(request, &err);
    } else if (!strcmp(method, "big")) {
        peer_request_reply(request, text_object(WIRE_MESSAGE_MAX_BYTES));
    } else {
        assert_true(end->held_count < HELD_MAX);
        end->held[end->held_count++] = request;
    }
}

static void release_all(struct end *end)
{
    for (unsigned i = 0; i < end->held_count; i++) {
        peer_request_reply(end->held[i], NULL);
    }
    end->held_count = 0;
}

static void on_lane(void *arg, const char *peer, struct lane *lane,
                    const struct hello *theirs)
{
    struct end *end = arg;
    end->lanes++;
    lane_refuse(lane, ERR_NOT_FOUND, "no lane is expected");
}

static void on_new_instance(void *arg, const char *peer)
{
    struct end *end = arg;
    end->instances++;
}

static const struct peers_ops ops = {.on_request = on_request,
                                     .on_lane = on_lane,
                                     .on_new_instance = on_new_instance};

/* --- the rig ------------------------------------------------------------- */

static struct conf *make_conf(const struct rig *rig, const struct end *end,
                              const struct end *other, bool is_a,
                              const char *identity)
{
    struct error err = ERROR_INIT;
    char text[800];
    int n = snprintf(text, sizeof(text),
                     "[daemon]\nname = %s\nrun-dir = %s\nstate-dir = %s\n"
                     "[listen]\naddress = %s\n[tls]\ndir = %s\n"
                     "[peer \"%s\"]\naddress = %s\nidentity = %s\n"
                     "allow = send receive\n",
                     is_a ? "host-a" : "host-b", rig->pki, rig->pki,
                     end->address, rig->pki, is_a ? "host-b" : "host-a",
                     other->relay_address, identity);
    struct conf *conf = conf_parse_text(text, (size_t)n, "test", &err);

    if (!conf) {
        fail_msg("%s", err.text);
    }
    conf->connect_timeout = LONG;
    return conf;
}

static void start_end(struct rig *rig, struct end *end)
{
    struct error err = ERROR_INIT;

    end->loop = rig->loop;
    end->peers = peers_new(rig->loop, end->conf, end->tls, &ops, end, &err);
    if (!end->peers) {
        fail_msg("%s", err.text);
    }
}

static void init_end(struct rig *rig, struct end *end, unsigned number)
{
    static unsigned made;
    unsigned pid = (unsigned)getpid();
    struct error err = ERROR_INIT;

    /* all of 127/8 is this host */
    snprintf(end->address, sizeof(end->address), "127.%u.%u.%u:16515",
             1 + pid % 250, pid / 250 % 250, 1 + made++ % 240);
    snprintf(end->relay_address, sizeof(end->relay_address),
             "127.%u.%u.%u:16515", 1 + pid % 250, pid / 250 % 250,
             1 + made++ % 240);
    end->relay = relay_new(rig->loop, end->relay_address, end->address);
    end->tls = tls_load(pki_path(rig->pki, number ? "host-b" : "host-a"), &err);
    if (!end->tls) {
        fail_msg("%s", err.text);
    }
}

static struct rig *rig_with(const char *identity_of_b,
                            const char *identity_of_a)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    struct error err = ERROR_INIT;

    assert_non_null(rig);
    rig->pki = pki_new();
    pki_make(rig->pki, "", "host-a host-b");
    rig->loop = loop_new("control", &err);
    assert_non_null(rig->loop);
    init_end(rig, &rig->a, 0);
    init_end(rig, &rig->b, 1);
    rig->a.conf = make_conf(rig, &rig->a, &rig->b, true, identity_of_b);
    rig->b.conf = make_conf(rig, &rig->b, &rig->a, false, identity_of_a);
    start_end(rig, &rig->a);
    start_end(rig, &rig->b);
    return rig;
}

static int set_up(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_ERROR);
    *state = rig_with("host-b", "host-a");
    return 0;
}

static void free_end(struct end *end)
{
    release_all(end);
    peers_free(end->peers);
    end->peers = NULL;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    struct end *ends[] = {&rig->a, &rig->b};

    for (int i = 0; i < 2; i++) {
        free_end(ends[i]);
        relay_free(ends[i]->relay);
        tls_unref(ends[i]->tls);
        conf_free(ends[i]->conf);
    }
    loop_free(rig->loop);
    pki_free(rig->pki);
    free(rig);
    return 0;
}

static void set_cb(void *arg)
{
    *(bool *)arg = true;
}

static void run_for(struct rig *rig, mp_time time)
{
    struct loop_timer timer;
    bool is_over = false;

    loop_timer_init(&timer, rig->loop, set_cb, &is_over);
    loop_timer_start(&timer, time);
    while (!is_over) {
        event_base_loop(loop_base(rig->loop), EVLOOP_ONCE);
    }
    loop_timer_done(&timer);
}

#define RUN_UNTIL(rig, condition)                                              \
    do {                                                                       \
        for (int ms_ = 0; !(condition) && ms_ < LIMIT_MS; ms_++) {             \
            run_for(rig, MP_MS);                                               \
        }                                                                      \
        assert_true(condition);                                                \
    } while (0)

static unsigned open_links(const struct rig *rig)
{
    return relay_open(rig->a.relay) + relay_open(rig->b.relay);
}

/* --- calls ---------------------------------------------------------------- */

struct call {
    unsigned ended;
    struct error err;
    char text[64];
    struct peers *peers; /* of what is done in the callback: */
    struct call *drops, *calls;
};

static void ask(struct end *end, const char *method, json_object *params,
                mp_time timeout, struct call *call);

static void call_cb(void *arg, json_object *result, const struct error *err)
{
    struct call *call = arg;
    const char *text = "";

    call->ended++;
    if (err) {
        call->err = *err;
    } else {
        json_value_text(result, "text", &text);
        snprintf(call->text, sizeof(call->text), "%s", text);
    }
    if (call->drops) {
        peers_drop_calls(call->peers, call->drops);
    }
    if (call->calls) {
        peers_call(call->peers, "host-b", "echo", NULL, LONG, call->calls,
                   call_cb, call->calls);
    }
}

static const char *other_of(const struct end *end)
{
    return strcmp(end->conf->name, "host-a") ? "host-a" : "host-b";
}

static void ask(struct end *end, const char *method, json_object *params,
                mp_time timeout, struct call *call)
{
    unsigned before = call->ended;

    peers_call(end->peers, other_of(end), method, params, timeout, call,
               call_cb, call);
    assert_int_equal(call->ended, before); /* never from within */
}

static void expect_echo(struct rig *rig, struct end *end)
{
    struct call call = {0};
    json_object *params = json_object_new_object();

    json_object_object_add(params, "text", json_object_new_string("hello"));
    ask(end, "echo", params, LONG, &call);
    RUN_UNTIL(rig, call.ended);
    if (error_is_set(&call.err)) {
        fail_msg("%s", call.err.text);
    }
    assert_string_equal(call.text, "hello");
}

static void a_request_is_answered_or_refused(void **state)
{
    struct rig *rig = *state;
    struct call call = {0};

    expect_echo(rig, &rig->a);
    expect_echo(rig, &rig->b);
    ask(&rig->a, "fail", NULL, LONG, &call);
    RUN_UNTIL(rig, call.ended);
    assert_int_equal(call.err.code, ERR_CONFLICT);
    assert_string_equal(call.err.text, "not now, host-a");
    assert_int_equal(rig->b.requests, 2);
    assert_int_equal(open_links(rig), 1); /* for both directions */
}

static void an_answer_may_come_too_late(void **state)
{
    struct rig *rig = *state;
    struct call call = {0};

    expect_echo(rig, &rig->a);
    ask(&rig->a, "hold", NULL, 50 * MP_MS, &call);
    RUN_UNTIL(rig, call.ended);
    assert_int_equal(call.err.code, ERR_TIMEOUT);
    assert_non_null(strstr(call.err.text, "hold"));
    assert_non_null(strstr(call.err.text, "host-b"));
    RUN_UNTIL(rig, rig->b.held_count == 1);
    release_all(&rig->b);
    expect_echo(rig, &rig->a);
    assert_int_equal(call.ended, 1);
}

static void an_unknown_peer_is_told_from_the_loop(void **state)
{
    struct rig *rig = *state;
    struct call call = {0};

    peers_call(rig->a.peers, "nobody", "echo", NULL, LONG, &call, call_cb,
               &call);
    assert_int_equal(call.ended, 0);
    RUN_UNTIL(rig, call.ended);
    assert_int_equal(call.err.code, ERR_PEER_UNKNOWN);
    assert_non_null(strstr(call.err.text, "nobody"));
}

static void nobody_listens(void **state)
{
    struct rig *rig = *state;
    struct call calls[2] = {0};

    relay_refuse(rig->b.relay, true);
    ask(&rig->a, "echo", NULL, LONG, &calls[0]);
    ask(&rig->a, "echo", NULL, LONG, &calls[1]);
    RUN_UNTIL(rig, calls[0].ended && calls[1].ended);
    assert_int_not_equal(calls[0].err.code, ERR_NONE);
    relay_refuse(rig->b.relay, false);
    expect_echo(rig, &rig->a);
    assert_int_equal(calls[0].ended + calls[1].ended, 2);
}

static void a_link_breaks_with_requests_open(void **state)
{
    struct rig *rig = *state;
    struct call calls[2] = {0};

    ask(&rig->a, "hold", NULL, LONG, &calls[0]);
    ask(&rig->a, "hold", NULL, LONG, &calls[1]);
    RUN_UNTIL(rig, rig->b.held_count == 2);
    relay_cut_all(rig->b.relay);
    RUN_UNTIL(rig, calls[0].ended && calls[1].ended);
    assert_int_equal(calls[0].err.code, ERR_LINK_LOST);
    assert_int_equal(calls[1].err.code, ERR_LINK_LOST);
    release_all(&rig->b); /* outlived their connection */
    expect_echo(rig, &rig->a);
    expect_echo(rig, &rig->b);
    assert_int_equal(rig->a.instances + rig->b.instances, 0);
}

/* What the API says of end's only peer; the caller's reference. */
static json_object *shown_peer(struct end *end)
{
    json_object *all = peers_to_json(end->peers);
    json_object *one = json_object_get(json_object_array_get_idx(all, 0));

    json_object_put(all);
    return one;
}

/* Either is NULL where nothing must be said. */
static void expect_shown(struct end *end, bool connected, const char *error,
                         int lost_ms_at_least)
{
    json_object *peer = shown_peer(end);
    json_object *lost = json_object_object_get(peer, "lost_ms");
    json_object *failure = json_object_object_get(peer, "error");

    assert_int_equal(
        json_object_get_boolean(json_object_object_get(peer, "connected")),
        connected);
    if (lost_ms_at_least < 0) {
        assert_null(lost);
    } else {
        assert_non_null(lost);
        assert_in_range(json_object_get_int(lost), lost_ms_at_least, LIMIT_MS);
    }
    if (error) {
        assert_non_null(failure);
        assert_non_null(strstr(json_object_to_json_string(failure), error));
    } else {
        assert_null(failure);
    }
    json_object_put(peer);
}

static void a_lost_link_is_told(void **state)
{
    struct rig *rig = *state;

    expect_shown(&rig->a, false, NULL, -1);
    expect_echo(rig, &rig->a);
    expect_shown(&rig->a, true, NULL, -1);
    relay_cut_all(rig->b.relay);
    RUN_UNTIL(rig, open_links(rig) == 0);
    run_for(rig, 50 * MP_MS);
    expect_shown(&rig->a, false, "link-lost", 1);
    expect_echo(rig, &rig->a);
    expect_shown(&rig->a, true, NULL, -1);
}

/* Takes the limit of silence, 10 s. */
static void a_silent_link_is_told(void **state)
{
    struct rig *rig = *state;

    expect_echo(rig, &rig->a);
    relay_hold(rig->b.relay, true);
    run_for(rig, 12 * MP_SECOND);
    expect_shown(&rig->a, false, "was silent for 10 s", 0);
    relay_cut_all(rig->b.relay);
    relay_hold(rig->b.relay, false);
    expect_echo(rig, &rig->a);
    expect_shown(&rig->a, true, NULL, -1);
}

static void a_call_is_dropped_while_its_link_fails(void **state)
{
    struct rig *rig = *state;
    struct call calls[3] = {0};

    calls[0].peers = rig->a.peers;
    calls[0].drops = &calls[1];
    for (int i = 0; i < 3; i++) {
        ask(&rig->a, "hold", NULL, LONG, &calls[i]);
    }
    RUN_UNTIL(rig, rig->b.held_count == 3);
    relay_cut_all(rig->b.relay);
    RUN_UNTIL(rig, calls[0].ended && calls[2].ended);
    run_for(rig, 20 * MP_MS);
    assert_int_equal(calls[1].ended, 0);
    /* and before its callback was due */
    struct call unknown = {0};
    peers_call(rig->a.peers, "nobody", "echo", NULL, LONG, &unknown, call_cb,
               &unknown);
    peers_drop_calls(rig->a.peers, &unknown);
    run_for(rig, 20 * MP_MS);
    assert_int_equal(unknown.ended, 0);
}

static void peers_are_freed_with_calls_open(void **state)
{
    struct rig *rig = *state;
    struct call open = {0}, waits = {0}, again = {0}, failed = {0};

    open.peers = rig->a.peers;
    open.calls = &again;
    ask(&rig->a, "hold", NULL, LONG, &open);
    RUN_UNTIL(rig, rig->b.held_count == 1);
    ask(&rig->a, "hold", NULL, LONG, &waits);
    peers_call(rig->a.peers, "nobody", "echo", NULL, LONG, &failed, call_cb,
               &failed);
    free_end(&rig->a);
    assert_int_equal(open.ended, 1);
    assert_int_equal(open.err.code, ERR_SHUTTING_DOWN);
    assert_int_equal(waits.err.code, ERR_SHUTTING_DOWN);
    assert_int_equal(again.ended, 1);
    assert_int_equal(again.err.code, ERR_SHUTTING_DOWN);
    assert_int_equal(failed.err.code, ERR_PEER_UNKNOWN);
    run_for(rig, 50 * MP_MS); /* nothing of it comes later */
    assert_int_equal(open.ended + waits.ended + again.ended + failed.ended, 4);
}

static void expect_too_long(const struct call *call, const char *method,
                            const char *what)
{
    char limit[16];

    snprintf(limit, sizeof(limit), "%d", WIRE_MESSAGE_MAX_BYTES);
    assert_int_equal(call->err.code, ERR_LIMIT);
    assert_non_null(strstr(call->err.text, method));
    assert_non_null(strstr(call->err.text, what));
    assert_non_null(strstr(call->err.text, limit));
    assert_non_null(strstr(call->err.text, "262"));
}

static void what_is_too_long_fails_alone(void **state)
{
    struct rig *rig = *state;
    struct call held = {0}, request = {0}, answer = {0};

    ask(&rig->a, "hold", NULL, LONG, &held);
    RUN_UNTIL(rig, rig->b.held_count == 1);
    ask(&rig->a, "echo", text_object(WIRE_MESSAGE_MAX_BYTES), LONG, &request);
    ask(&rig->a, "big", NULL, LONG, &answer);
    RUN_UNTIL(rig, request.ended && answer.ended);
    expect_too_long(&request, "echo", "request");
    expect_too_long(&answer, "big", "answer");
    assert_int_equal(rig->b.requests, 2);
    /* the longest that fits */
    struct call fits = {0};
    ask(&rig->a, "echo", text_object(WIRE_MESSAGE_MAX_BYTES - 100), LONG,
        &fits);
    RUN_UNTIL(rig, fits.ended);
    assert_int_equal(fits.err.code, ERR_NONE);
    assert_int_equal(held.ended, 0);
    release_all(&rig->b);
    RUN_UNTIL(rig, held.ended);
    assert_int_equal(held.err.code, ERR_NONE);
    assert_int_equal(relay_count(rig->a.relay) + relay_count(rig->b.relay), 1);
}

static void both_dial_at_once(void **state)
{
    struct rig *rig = *state;
    struct call calls[4] = {0};

    ask(&rig->a, "hold", NULL, LONG, &calls[0]);
    ask(&rig->b, "hold", NULL, LONG, &calls[1]);
    RUN_UNTIL(rig, rig->a.held_count == 1 && rig->b.held_count == 1);
    assert_int_equal(relay_count(rig->a.relay) + relay_count(rig->b.relay), 2);
    /* longer than it takes to see that a second one is idle */
    run_for(rig, 3500 * MP_MS);
    assert_int_equal(calls[0].ended + calls[1].ended, 0);
    release_all(&rig->a);
    release_all(&rig->b);
    RUN_UNTIL(rig, calls[0].ended && calls[1].ended);
    assert_int_equal(calls[0].err.code, ERR_NONE);
    assert_int_equal(calls[1].err.code, ERR_NONE);
    ask(&rig->a, "hold", NULL, LONG, &calls[2]);
    ask(&rig->b, "hold", NULL, LONG, &calls[3]);
    RUN_UNTIL(rig, open_links(rig) == 1);
    assert_int_equal(calls[2].ended + calls[3].ended, 0);
    release_all(&rig->a);
    release_all(&rig->b);
    RUN_UNTIL(rig, calls[2].ended && calls[3].ended);
    assert_int_equal(calls[2].err.code, ERR_NONE);
    assert_int_equal(calls[3].err.code, ERR_NONE);
    expect_echo(rig, &rig->a);
    expect_echo(rig, &rig->b);
    assert_int_equal(relay_count(rig->a.relay) + relay_count(rig->b.relay), 2);
}

static void a_peer_asks_for_too_much(void **state)
{
    struct rig *rig = *state;
    struct call *calls = calloc(PEER_REQUESTS_MAX + 1, sizeof(*calls));
    unsigned refused = 0, answered = 0;

    assert_non_null(calls);
    for (int i = 0; i <= PEER_REQUESTS_MAX; i++) {
        ask(&rig->a, "hold", NULL, LONG, &calls[i]);
    }
    RUN_UNTIL(rig, rig->b.held_count == PEER_REQUESTS_MAX &&
                       calls[PEER_REQUESTS_MAX].ended);
    assert_int_equal(calls[PEER_REQUESTS_MAX].err.code, ERR_LIMIT);
    assert_non_null(strstr(calls[PEER_REQUESTS_MAX].err.text, "256"));
    release_all(&rig->b);
    RUN_UNTIL(rig, calls[PEER_REQUESTS_MAX - 1].ended);
    for (int i = 0; i <= PEER_REQUESTS_MAX; i++) {
        answered += calls[i].err.code == ERR_NONE;
        refused += calls[i].err.code == ERR_LIMIT;
    }
    assert_int_equal(answered, PEER_REQUESTS_MAX);
    assert_int_equal(refused, 1);
    expect_echo(rig, &rig->a);
    free(calls);
}

static void a_peer_is_started_anew(void **state)
{
    struct rig *rig = *state;
    struct call call = {0};

    expect_echo(rig, &rig->a);
    ask(&rig->a, "hold", NULL, LONG, &call);
    RUN_UNTIL(rig, rig->b.held_count == 1);
    free_end(&rig->b);
    RUN_UNTIL(rig, call.ended);
    start_end(rig, &rig->b);
    assert_int_equal(rig->a.instances, 0);
    expect_echo(rig, &rig->a);
    assert_int_equal(rig->a.instances, 1);
    assert_int_equal(rig->b.instances, 0);
}

static void expect_no_link(struct rig *rig, const char *word)
{
    struct call call = {0};

    ask(&rig->a, "echo", NULL, LONG, &call);
    RUN_UNTIL(rig, call.ended);
    assert_int_not_equal(call.err.code, ERR_NONE);
    assert_int_not_equal(call.err.code, ERR_TIMEOUT);
    if (!strstr(call.err.text, word)) {
        fail_msg("no \"%s\" in: %s", word, call.err.text);
    }
    assert_int_equal(rig->b.requests, 0);
}

static void a_peer_has_another_identity(void **state)
{
    struct rig *rig = rig_with("host-c", "host-a");
    void *copy = rig;

    expect_no_link(rig, "host-c");
    tear_down(&copy);
}

static void an_identity_is_nobodys(void **state)
{
    struct rig *rig = rig_with("host-b", "host-c");
    void *copy = rig;

    expect_no_link(rig, "identity");
    tear_down(&copy);
}

#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_RIG(a_request_is_answered_or_refused),
        WITH_RIG(an_answer_may_come_too_late),
        WITH_RIG(an_unknown_peer_is_told_from_the_loop),
        WITH_RIG(nobody_listens),
        WITH_RIG(a_link_breaks_with_requests_open),
        WITH_RIG(a_lost_link_is_told),
        WITH_RIG(a_silent_link_is_told),
        WITH_RIG(a_call_is_dropped_while_its_link_fails),
        WITH_RIG(peers_are_freed_with_calls_open),
        WITH_RIG(what_is_too_long_fails_alone),
        WITH_RIG(both_dial_at_once),
        WITH_RIG(a_peer_asks_for_too_much),
        WITH_RIG(a_peer_is_started_anew),
        cmocka_unit_test(a_peer_has_another_identity),
        cmocka_unit_test(an_identity_is_nobodys),
    };
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
