// SPDX-License-Identifier: BSD-3-Clause
/* Mux pairs in memory: whole conversations as text, openings, ends, resets and
 * epochs, and what the user may ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/muxpair.h"

/* Conversations. ---------------------------------------------------------- */

static void conversation_one_channel_there_and_back(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    memlink_trace(pair->link);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_send(pair, 0, MAIN, "hello");
    mux_end(muxpair_mux(pair, 0), MAIN);
    muxpair_run(pair);
    muxpair_send(pair, 1, MAIN, "back");
    mux_end(muxpair_mux(pair, 1), MAIN);
    muxpair_run(pair);
    assert_string_equal(
        memlink_trace_text(pair->link),
        "> bulk OPEN ch=0 sub=0 ep=1 off=0 arg=1 len=0\n"
        "> bulk DATA ch=0 sub=0 ep=1 off=0 arg=0 len=5 flags=ACK\n"
        "> bulk END ch=0 sub=0 ep=1 off=5 arg=0 len=0\n"
        "< express ACK ch=0 sub=0 ep=1 off=5 arg=4194309 len=0\n"
        "< express ACK ch=0 sub=1 ep=1 off=0 arg=1048576 len=0\n"
        "< express DATA ch=0 sub=0 ep=1 off=0 arg=0 len=4\n"
        "< express END ch=0 sub=0 ep=1 off=4 arg=0 len=0\n"
        "> express ACK ch=0 sub=0 ep=1 off=4 arg=1048580 len=0\n");
    assert_string_equal(pair->end[1].events, "OPENED 0/1, ENDED 0/1");
    assert_string_equal(pair->end[0].events, "ENDED 0/1");
    assert_string_equal(pair->end[1].text[MAIN], "hello");
    assert_string_equal(pair->end[0].text[MAIN], "back");
    assert_int_equal(pair->end[0].drained, 1 << MAIN);
    assert_false(muxpair_stats(pair, 0, MAIN).open);
    assert_false(muxpair_stats(pair, 1, MAIN).open);
    muxpair_free(pair);
}

static void conversation_postcopy_page_request(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    mux_set_phase(muxpair_mux(pair, 0), MUX_PHASE_POSTCOPY);
    muxpair_run(pair);
    memlink_trace(pair->link);
    muxpair_send_flags(pair, 0, MAIN, "bulk page", WIRE_FLAG_MERGE, 0);
    muxpair_send(pair, 1, MAIN, "request");
    muxpair_run(pair);
    muxpair_send_urgent(pair, "PAGE", 9);
    muxpair_run(pair);
    muxpair_send_flags(pair, 0, MAIN, "eof", 0, 1);
    mux_end(muxpair_mux(pair, 0), MAIN);
    muxpair_run(pair);
    assert_string_equal(
        memlink_trace_text(pair->link),
        "> bulk DATA ch=0 sub=0 ep=1 off=0 arg=0 len=9 flags=MERGE|ACK\n"
        "< express DATA ch=0 sub=0 ep=1 off=0 arg=0 len=7\n"
        "< express ACK ch=0 sub=0 ep=1 off=9 arg=4194313 len=0\n"
        "> express DATA ch=0 sub=1 ep=1 off=0 arg=9 len=4 flags=ACK\n"
        "< express ACK ch=0 sub=1 ep=1 off=4 arg=1048580 len=0\n"
        "> bulk DATA ch=0 sub=0 ep=1 off=9 arg=1 len=3 flags=ACK\n"
        "> bulk END ch=0 sub=0 ep=1 off=12 arg=1 len=0\n"
        "< express ACK ch=0 sub=0 ep=1 off=12 arg=4194316 len=0\n");
    assert_string_equal(pair->end[1].text[MAIN], "bulk pagePAGEeof");
    assert_int_equal(muxpair_stats(pair, 1, MAIN).urgent_delivered_frames, 1);
    assert_int_equal(muxpair_stats(pair, 0, MAIN).urgent_sent_frames, 1);
    muxpair_free(pair);
}

/* The same, with what arrives cut into single bytes, and in other ways. */
static char *postcopy_trace(size_t cut_bytes)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.cut_bytes = cut_bytes;
    struct muxpair *pair = muxpair_new(&config);
    memlink_trace(pair->link);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    muxpair_run(pair);
    muxpair_send_flags(pair, 0, MAIN, "bulk page", WIRE_FLAG_MERGE, 0);
    muxpair_send(pair, 0, PREEMPT, "preempt");
    muxpair_send(pair, 1, MAIN, "request");
    muxpair_run(pair);
    muxpair_send_urgent(pair, "PAGE", 9);
    muxpair_send_flags(pair, 0, MAIN, "eof", 0, 1);
    mux_end(muxpair_mux(pair, 0), MAIN);
    mux_reset(muxpair_mux(pair, 1), PREEMPT, ERR_QEMU_GONE, "gone");
    muxpair_run(pair);
    assert_string_equal(pair->end[1].text[MAIN], "bulk pagePAGEeof");
    assert_string_equal(pair->end[0].events, "RESET 1/1 gone");
    char *trace = strdup(memlink_trace_text(pair->link));
    muxpair_free(pair);
    return trace;
}

static void conversation_does_not_depend_on_cuts(void **state)
{
    char *whole = postcopy_trace(0);
    for (size_t cut = 1; cut <= 40; cut++) {
        char *trace = postcopy_trace(cut);
        assert_string_equal(trace, whole);
        free(trace);
    }
    free(whole);
}

static void conversation_reset_and_recovery_in_the_next_epoch(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    memlink_trace(pair->link);
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    muxpair_run(pair);
    mux_reset(muxpair_mux(pair, 1), PREEMPT, ERR_QEMU_GONE, "socket broke");
    muxpair_run(pair);
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    muxpair_send(pair, 0, PREEMPT, "page");
    muxpair_run(pair);
    mux_reset(muxpair_mux(pair, 0), PREEMPT, ERR_CANCELLED, NULL);
    muxpair_run(pair);
    assert_string_equal(
        memlink_trace_text(pair->link),
        "> express OPEN ch=1 sub=0 ep=1 off=0 arg=2 len=0\n"
        "< express ACK ch=1 sub=0 ep=1 off=0 arg=1048576 len=0\n"
        "< express RESET ch=1 sub=0 ep=1 off=25 arg=0 len=12\n"
        "> express OPEN ch=1 sub=0 ep=2 off=1 arg=2 len=0\n"
        "> express DATA ch=1 sub=0 ep=2 off=0 arg=0 len=4\n"
        "< express ACK ch=1 sub=0 ep=2 off=4 arg=1048580 len=0\n"
        "> express RESET ch=1 sub=0 ep=2 off=27 arg=0 len=0\n");
    assert_string_equal(pair->end[0].events, "RESET 1/1 socket broke");
    assert_string_equal(pair->end[1].events,
                        "OPENED 1/1, OPENED 1/2, RESET 1/2 ");
    muxpair_free(pair);
}

static void conversation_disk_both_ways_on_the_bulk_lane(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    memlink_trace(pair->link);
    muxpair_open(pair, DISK, WIRE_CLASS_DISK);
    muxpair_send(pair, 0, DISK, "write");
    muxpair_run(pair);
    muxpair_send(pair, 1, DISK, "reply");
    muxpair_run(pair);
    assert_string_equal(
        memlink_trace_text(pair->link),
        "> bulk OPEN ch=10 sub=0 ep=1 off=0 arg=4 len=0\n"
        "> bulk DATA ch=10 sub=0 ep=1 off=0 arg=0 len=5 flags=ACK\n"
        "< express ACK ch=10 sub=0 ep=1 off=5 arg=4194309 len=0\n"
        "< bulk DATA ch=10 sub=0 ep=1 off=0 arg=0 len=5 flags=ACK\n"
        "> express ACK ch=10 sub=0 ep=1 off=5 arg=4194309 len=0\n");
    muxpair_free(pair);
}

/* Openings. --------------------------------------------------------------- */

static void channels_are_told_in_the_order_of_opening_across_lanes(void **state)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.rate_bytes_per_second = 125000000;
    struct muxpair *pair = muxpair_new(&config);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN); /* bulk lane */
    muxpair_send_bytes(pair, 0, MAIN, 100000);
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT); /* overtakes it */
    muxpair_open(pair, MULTIFD, WIRE_CLASS_MULTIFD);
    muxpair_send(pair, 0, PREEMPT, "early");
    mux_end(muxpair_mux(pair, 0), PREEMPT);
    muxpair_run(pair);
    assert_string_equal(pair->end[1].events,
                        "OPENED 0/1, OPENED 1/1, OPENED 2/1, ENDED 1/1");
    assert_string_equal(pair->end[1].text[PREEMPT], "early");
    muxpair_free(pair);
}

static void urgent_frame_may_overtake_its_open(void **state)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.rate_bytes_per_second = 125000000;
    struct muxpair *pair = muxpair_new(&config);
    muxpair_open(pair, MULTIFD, WIRE_CLASS_MULTIFD);
    muxpair_send_bytes(pair, 0, MULTIFD, 200000);
    muxpair_run_for(pair, 100 * MP_US); /* the bulk lane is busy */
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_send_urgent(pair, "URGENT", 0);
    muxpair_send_flags(pair, 0, MAIN, "bulk", 0, 1);
    muxpair_run(pair);
    assert_string_equal(pair->end[1].text[MAIN], "URGENTbulk");
    assert_int_equal(muxpair_stats(pair, 1, MAIN).stale_frames, 0);
    muxpair_free(pair);
}

static void open_is_refused_while_the_channel_is_open(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    struct error err = ERROR_INIT;
    struct mux *mux = muxpair_mux(pair, 0);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    assert_int_equal(mux_open(mux, MAIN, WIRE_CLASS_MAIN, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_string_equal(err.text, "channel 0 (main) is open");
    mux_end(mux, MAIN);
    muxpair_run(pair);
    assert_int_equal(mux_open(mux, MAIN, WIRE_CLASS_MAIN, &err), -1);
    mux_end(muxpair_mux(pair, 1), MAIN);
    muxpair_run(pair);
    assert_int_equal(mux_open(mux, MAIN, WIRE_CLASS_DISK, &err), -1);
    assert_string_equal(err.text, "channel 0 is main, not disk");
    assert_int_equal(mux_open(mux, MAIN, WIRE_CLASS_MAIN, &err), 0);
    assert_int_equal(mux_open(mux, 64, WIRE_CLASS_MAIN, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.text,
                        "channel 64: a migration has at most 64 channels");
    muxpair_run(pair);
    assert_string_equal(pair->end[1].events,
                        "OPENED 0/1, ENDED 0/1, OPENED 0/2");
    muxpair_free(pair);
}

static void every_channel_can_be_open_at_once(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    for (uint16_t c = 0; c < WIRE_CHANNELS; c++) {
        muxpair_open(pair, c, c == 0 ? WIRE_CLASS_MAIN : WIRE_CLASS_MULTIFD);
        muxpair_send(pair, 0, c, "x");
        mux_end(muxpair_mux(pair, 0), c);
    }
    muxpair_run(pair);
    for (uint16_t c = 0; c < WIRE_CHANNELS; c++) {
        assert_string_equal(pair->end[1].text[c], "x");
    }
    assert_true(pair->end[0].drained == UINT64_MAX);
    muxpair_free(pair);
}

/* Ends, resets, epochs. --------------------------------------------------- */

static void each_direction_ends_for_itself(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    mux_end(muxpair_mux(pair, 0), MAIN);
    muxpair_run(pair);
    assert_string_equal(pair->end[1].events, "OPENED 0/1, ENDED 0/1");
    assert_string_equal(pair->end[0].events, "");
    assert_int_equal(mux_send_room(muxpair_mux(pair, 0), MAIN), 0);
    muxpair_send_bytes(pair, 1, MAIN, 5000000);
    muxpair_run(pair);
    assert_int_equal(pair->end[0].got_bytes[MAIN], 5000000);
    mux_end(muxpair_mux(pair, 1), MAIN);
    muxpair_run(pair);
    assert_string_equal(pair->end[0].events, "ENDED 0/1");
    assert_true(pair->end[1].drained & 1 << MAIN);
    muxpair_free(pair);
}

static void drained_means_delivered_once_the_direction_ended(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[1].deaf = 1 << MAIN;
    muxpair_send(pair, 0, MAIN, "data");
    mux_end(muxpair_mux(pair, 0), MAIN);
    muxpair_run(pair);
    assert_int_equal(pair->end[0].drained, 0);
    assert_string_equal(pair->end[1].events, "OPENED 0/1");
    pair->end[1].deaf = 0;
    muxpair_run(pair);
    assert_int_equal(pair->end[0].drained, 1 << MAIN);
    assert_string_equal(pair->end[1].events, "OPENED 0/1, ENDED 0/1");
    muxpair_free(pair);
}

static void reset_drops_what_is_queued_and_held(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    struct mux *mux = muxpair_mux(pair, 0);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    pair->end[1].deaf = 1 << MAIN;
    muxpair_send_bytes(pair, 0, MAIN, 8 << 20);
    muxpair_run(pair);
    assert_true(muxpair_stats(pair, 0, MAIN).held_bytes > 0);
    assert_true(mux_deliver_bytes(muxpair_mux(pair, 1), MAIN) > 0);
    mux_reset(mux, MAIN, ERR_CANCELLED, "enough");
    muxpair_run(pair);
    assert_string_equal(pair->end[1].events, "OPENED 0/1, RESET 0/1 enough");
    assert_string_equal(pair->end[0].events, "");
    assert_int_equal(muxpair_stats(pair, 0, MAIN).held_bytes, 0);
    assert_int_equal(mux_deliver_bytes(muxpair_mux(pair, 1), MAIN), 0);
    assert_int_equal(mux_send_room(mux, MAIN), 0);
    muxpair_free(pair);
}

static void frames_of_an_old_epoch_are_dropped_and_counted(void **state)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.rate_bytes_per_second = 125000000;
    config.delay = 10 * MP_MS;
    struct muxpair *pair = muxpair_new(&config);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_run_for(pair, 50 * MP_MS);
    /* on its way when the other end gives up */
    muxpair_send(pair, 0, MAIN, "stale");
    muxpair_run_for(pair, MP_MS);
    mux_reset(muxpair_mux(pair, 1), MAIN, ERR_QEMU_GONE, "gone");
    muxpair_run_for(pair, 50 * MP_MS);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_send(pair, 0, MAIN, "fresh");
    muxpair_run(pair);
    assert_string_equal(pair->end[1].text[MAIN], "fresh");
    assert_int_equal(muxpair_stats(pair, 1, MAIN).stale_frames, 1);
    assert_int_equal(muxpair_stats(pair, 1, MAIN).epoch, 2);
    muxpair_free(pair);
}

static void resets_that_cross_are_both_silent(void **state)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.delay = 10 * MP_MS;
    struct muxpair *pair = muxpair_new(&config);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_run(pair);
    mux_reset(muxpair_mux(pair, 0), MAIN, ERR_CANCELLED, "mine");
    mux_reset(muxpair_mux(pair, 1), MAIN, ERR_QEMU_GONE, "theirs");
    muxpair_run(pair);
    assert_string_equal(pair->end[0].events, "");
    assert_string_equal(pair->end[1].events, "OPENED 0/1");
    muxpair_free(pair);
}

static void channel_reset_before_it_was_told_is_told_as_reset(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    mux_reset(muxpair_mux(pair, 0), PREEMPT, ERR_CANCELLED, "no");
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    muxpair_run(pair);
    assert_string_equal(pair->end[1].events, "RESET 1/1 no, OPENED 1/2");
    muxpair_free(pair);
}

static void end_inside_a_record_with_urgent_frames_resets(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_send(pair, 0, MAIN, "no merge point");
    muxpair_send_urgent(pair, "U", 0);
    mux_end(muxpair_mux(pair, 0), MAIN);
    muxpair_run(pair);
    assert_non_null(strstr(pair->end[1].events, "RESET 0/1 "));
    assert_null(strstr(pair->end[1].events, "OPENED"));
    assert_false(muxpair_stats(pair, 0, MAIN).open);
    muxpair_free(pair);
}

static void text_of_a_reset_is_cut(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    char text[2 * WIRE_TEXT_MAX_BYTES];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_run(pair);
    mux_reset(muxpair_mux(pair, 0), MAIN, ERR_CANCELLED, text);
    muxpair_run(pair);
    assert_int_equal(strlen(pair->end[1].events),
                     strlen("OPENED 0/1, RESET 0/1 ") + WIRE_TEXT_MAX_BYTES);
    muxpair_free(pair);
}

/* What the user may ask for. ---------------------------------------------- */

static void assert_send_refused(struct muxpair *pair, uint16_t channel,
                                size_t len, uint8_t flags, uint64_t after,
                                enum error_code code, const char *text)
{
    struct error err = ERROR_INIT;
    assert_int_equal(mux_send(muxpair_mux(pair, 0), channel, pair->zeros,
                              pair->zeros->data, len, flags, after, &err),
                     -1);
    assert_int_equal(err.code, code);
    assert_string_equal(err.text, text);
}

static void send_that_breaks_the_rules_is_refused(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    assert_send_refused(pair, 5, 1, 0, 0, ERR_CONFLICT,
                        "channel 5 is not open");
    assert_send_refused(pair, 999, 1, 0, 0, ERR_CONFLICT,
                        "channel 999 is not open");
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    assert_send_refused(pair, MAIN, 1, WIRE_FLAG_ACK, 0, ERR_BAD_REQUEST,
                        "flags 0x02: only MERGE");
    assert_send_refused(pair, MAIN, WIRE_DATA_MAX_BYTES + 1, WIRE_FLAG_MERGE, 0,
                        ERR_LIMIT,
                        "a frame of 131041 bytes with MERGE, at most 131040 "
                        "fit");
    assert_send_refused(pair, MAIN, 1, 0, 1, ERR_BAD_REQUEST,
                        "bytes wait for 1 urgent frames, only 0 were sent");
    muxpair_send(pair, 0, MAIN, "x");
    muxpair_send_urgent(pair, "U", 0);
    assert_send_refused(pair, MAIN, 1, 0, 1, ERR_BAD_REQUEST,
                        "bytes wait for 1 urgent frames where none may be put: "
                        "the frame before them has no MERGE");
    mux_end(muxpair_mux(pair, 0), MAIN); /* resets: see above */
    assert_send_refused(pair, MAIN, 1, 0, 0, ERR_CONFLICT,
                        "channel 0 is not open");
    muxpair_open(pair, PREEMPT, WIRE_CLASS_PREEMPT);
    mux_end(muxpair_mux(pair, 0), PREEMPT);
    assert_send_refused(pair, PREEMPT, 1, 0, 0, ERR_CONFLICT,
                        "channel 1 (preempt) was ended");
    muxpair_free(pair);
}

static void assert_urgent_refused(struct muxpair *pair, int end,
                                  uint16_t channel, size_t len, uint64_t after,
                                  const char *text)
{
    struct error err = ERROR_INIT;
    assert_int_equal(mux_send_urgent(muxpair_mux(pair, end), channel,
                                     pair->zeros, pair->zeros->data, len, after,
                                     &err),
                     -1);
    assert_string_equal(err.text, text);
}

static void urgent_frame_that_breaks_the_rules_is_refused(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_open(pair, MULTIFD, WIRE_CLASS_MULTIFD);
    muxpair_run(pair);
    assert_urgent_refused(pair, 0, MULTIFD, 1, 0,
                          "urgent frames are for main, from its opener; "
                          "channel 2 is multifd");
    assert_urgent_refused(pair, 1, MAIN, 1, 0,
                          "urgent frames are for main, from its opener; "
                          "channel 0 is main");
    assert_urgent_refused(pair, 0, MAIN, 0, 0,
                          "an urgent frame of 0 bytes, allowed 1 to 65536");
    assert_urgent_refused(pair, 0, MAIN, WIRE_URGENT_MAX_BYTES + 1, 0,
                          "an urgent frame of 65537 bytes, allowed 1 to 65536");
    assert_urgent_refused(pair, 0, MAIN, 1, 1,
                          "an urgent frame waits for offset 1, only 0 were "
                          "sent");
    muxpair_free(pair);
}

static void pieces_in_a_row_leave_as_one_frame(void **state)
{
    struct muxpair *pair = muxpair_new(NULL);
    struct mux *mux = muxpair_mux(pair, 0);
    muxpair_open(pair, MAIN, WIRE_CLASS_MAIN);
    muxpair_run(pair);
    memlink_trace(pair->link);
    for (size_t at = 0; at < 3000; at += 1000) {
        assert_int_equal(mux_send(mux, MAIN, pair->zeros,
                                  pair->zeros->data + at, 1000, 0, 0, NULL),
                         0);
    }
    muxpair_run(pair);
    assert_string_equal(
        memlink_trace_text(pair->link),
        "> bulk DATA ch=0 sub=0 ep=1 off=0 arg=0 len=3000 flags=ACK\n"
        "< express ACK ch=0 sub=0 ep=1 off=3000 arg=4197304 len=0\n");
    muxpair_free(pair);
}

static void ping_measures_the_round_trip_of_each_lane(void **state)
{
    struct memlink_config config;
    memlink_config_default(&config);
    config.delay = 7 * MP_MS;
    struct muxpair *pair = muxpair_new(&config);
    for (int i = 0; i < 100; i++) {
        mux_ping(muxpair_mux(pair, 0), WIRE_LANE_EXPRESS,
                 memlink_now(pair->link));
    }
    mux_ping(muxpair_mux(pair, 1), WIRE_LANE_BULK, memlink_now(pair->link));
    muxpair_run(pair);
    assert_true(pair->end[0].rtt[WIRE_LANE_EXPRESS] == 14 * MP_MS);
    assert_true(pair->end[1].rtt[WIRE_LANE_BULK] == 14 * MP_MS);
    assert_true(pair->end[0].rtt[WIRE_LANE_BULK] == 0);
    muxpair_free(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation_one_channel_there_and_back),
        cmocka_unit_test(conversation_postcopy_page_request),
        cmocka_unit_test(conversation_does_not_depend_on_cuts),
        cmocka_unit_test(conversation_reset_and_recovery_in_the_next_epoch),
        cmocka_unit_test(conversation_disk_both_ways_on_the_bulk_lane),
        cmocka_unit_test(
            channels_are_told_in_the_order_of_opening_across_lanes),
        cmocka_unit_test(urgent_frame_may_overtake_its_open),
        cmocka_unit_test(open_is_refused_while_the_channel_is_open),
        cmocka_unit_test(every_channel_can_be_open_at_once),
        cmocka_unit_test(each_direction_ends_for_itself),
        cmocka_unit_test(drained_means_delivered_once_the_direction_ended),
        cmocka_unit_test(reset_drops_what_is_queued_and_held),
        cmocka_unit_test(frames_of_an_old_epoch_are_dropped_and_counted),
        cmocka_unit_test(resets_that_cross_are_both_silent),
        cmocka_unit_test(channel_reset_before_it_was_told_is_told_as_reset),
        cmocka_unit_test(end_inside_a_record_with_urgent_frames_resets),
        cmocka_unit_test(text_of_a_reset_is_cut),
        cmocka_unit_test(send_that_breaks_the_rules_is_refused),
        cmocka_unit_test(urgent_frame_that_breaks_the_rules_is_refused),
        cmocka_unit_test(pieces_in_a_row_leave_as_one_frame),
        cmocka_unit_test(ping_measures_the_round_trip_of_each_lane),
    };
    return cmocka_run_group_tests_name("mux", tests, NULL, NULL);
}
