// SPDX-License-Identifier: BSD-3-Clause
/* What a person is told where a migration needs one: each text names what is
 * needed to act, and docs/recovery.md has a section for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/advice.h"
#include "proxy/api.h"

static const struct advice example = {
    .is_source = true,
    .id = "m1",
    .vm = "web",
    .uuid = "7d6f2a52-4c0e-4c57-9d0e-6d6967707278",
    .here = "host-a",
    .peer = "host-b",
    .qmp_path = "/q/here",
    .peer_qmp_path = "/q/there",
    .detail = "it laughed",
};

static char *make(enum advice_kind kind, bool is_source)
{
    struct advice advice = example;

    advice.kind = kind;
    advice.is_source = is_source;
    char *text = advice_make(&advice);
    assert_non_null(text);
    return text;
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        fail_msg("no \"%s\" in:\n%s", part, text);
    }
}

static void each_text_names_what_is_needed(void **state)
{
    static const char *const parts[] = {
        "Guest web (UUID 7d6f2a52-4c0e-4c57-9d0e-6d6967707278), migration m1",
        "this is host-a.",
        "host-b",
        "\nCertain: ",
        "\nNever: ",
        "\nDo: ",
        "migproxyctl close m1 --note TEXT",
    };

    for (int kind = 0; kind < ADVICE_KINDS; kind++) {
        for (int is_source = 0; is_source <= 1; is_source++) {
            char *text = make((enum advice_kind)kind, is_source);
            char anchor[80];
            for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
                expect(text, parts[i]);
            }
            expect(text, is_source ? "from host-a to host-b"
                                   : "from host-b to host-a");
            snprintf(anchor, sizeof(anchor), "\nMore: recovery.md#%s",
                     advice_anchor((enum advice_kind)kind));
            expect(text, anchor);
            assert_null(strstr(text, " \n"));
            assert_string_equal(strstr(text, anchor) + strlen(anchor), "");
            assert_null(strchr(text, '$'));
            assert_null(strstr(text, "\n\n"));
            free(text);
        }
    }
}

/* A socket belongs to its host, whichever end speaks. */
static void sockets_are_those_of_their_hosts(void **state)
{
    char *text = make(ADVICE_COPY, true);

    expect(text, "look on host-a whether the process is there (its QMP socket "
                 "/q/here)");
    expect(text, "resume the guest on host-b, by its QMP socket /q/there\n");
    free(text);
    text = make(ADVICE_COPY, false);
    expect(text, "look on host-b whether the process is there (its QMP socket "
                 "/q/there)");
    expect(text, "resume the guest on host-a, by its QMP socket /q/here\n");
    free(text);
}

static void what_is_not_known_is_not_made_up(void **state)
{
    struct advice advice = example;

    advice.kind = ADVICE_NOT_ANSWERED;
    advice.uuid = "";
    advice.peer_qmp_path = "";
    char *text = advice_make(&advice);
    expect(text, "Guest web, migration m1");
    expect(text, "its QMP socket (which host-b finds by [qemu] qmp-path or "
                 "incoming)");
    free(text);
}

/* As QEMU wants it, and in what order. */
static void a_recovery_has_its_commands(void **state)
{
    static const enum advice_kind kinds[] = {
        ADVICE_SPREAD, ADVICE_SOURCE_PERHAPS_ENDED,
        ADVICE_DESTINATION_PERHAPS_ENDED, ADVICE_IN_DOUBT, ADVICE_NOT_STARTED};
    static const char *const steps[] = {
        "  {\"exec-oob\":\"migrate-pause\"}\n",
        "migrate-recover by exec-oob",
        "not encrypted",
        "  {\"exec-oob\":\"migrate-recover\",\"arguments\":{\"uri\":"
        "\"tcp:ADDRESS:PORT\"}}\n",
        "resume=true",
        "  {\"execute\":\"migrate\",\"arguments\":{\"uri\":\"tcp:ADDRESS:PORT\""
        ",\"resume\":true}}\n",
        "\"enable\":[\"oob\"]}}\n",
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char *text = make(kinds[i], true);
        const char *at = text;
        for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
            expect(at, steps[k]);
            at = strstr(at, steps[k]);
        }
        free(text);
    }
}

/* Small pages with preempt: QEMU's recovery would end the guest. */
static void what_cannot_be_recovered_is_not_advised(void **state)
{
    struct advice advice = example;

    advice.is_unrecoverable = true;
    for (int kind = 0; kind < ADVICE_KINDS; kind++) {
        advice.kind = (enum advice_kind)kind;
        char *text = advice_make(&advice);
        assert_non_null(text);
        assert_null(strstr(text, "migrate-recover"));
        assert_null(strstr(text, "resume\":true"));
        free(text);
    }
    advice.kind = ADVICE_SPREAD;
    char *text = advice_make(&advice);
    expect(text, "But do not");
    free(text);
}

static void the_longest_is_whole(void **state)
{
    char name[API_NAME_MAX + 1], path[PATH_SOCKET_MAX + 1], id[ID_MAX + 1];
    char detail[sizeof(((struct error *)NULL)->text)];
    struct advice advice = example;

    memset(name, 'n', sizeof(name));
    memset(path, 'p', sizeof(path));
    memset(id, 'i', sizeof(id));
    memset(detail, 'd', sizeof(detail));
    name[API_NAME_MAX] = path[PATH_SOCKET_MAX] = id[ID_MAX] = '\0';
    detail[sizeof(detail) - 1] = '\0';
    advice.id = id;
    advice.vm = advice.here = advice.peer = name;
    advice.qmp_path = advice.peer_qmp_path = path;
    advice.detail = detail;
    for (int kind = 0; kind < ADVICE_KINDS; kind++) {
        advice.kind = (enum advice_kind)kind;
        char *text = advice_make(&advice);
        assert_non_null(text);
        assert_in_range(strlen(text), 1, ADVICE_BYTES_MAX);
        expect(text, "\nMore: recovery.md#");
        free(text);
    }
}

static char *read_page(void)
{
    const char *srcdir = getenv("srcdir");
    char path[4096];
    char *text = NULL;
    size_t size = 0;

    snprintf(path, sizeof(path), "%s/docs/recovery.md", srcdir ? srcdir : ".");
    FILE *file = fopen(path, "r");
    if (!file || getdelim(&text, &size, '\0', file) <= 0) {
        fail_msg("cannot read %s", path);
    }
    fclose(file);
    return text;
}

/* The page has a section for each, told by its heading, and no other; each says
 * what an advice says, and how it is closed. */
static void each_has_its_section(void **state)
{
    static const char *const parts[] = {"**Happened:** ", "**Certain:** ",
                                        "**Check:** ",    "**Do:** ",
                                        "**Never:** ",    "**Close:** "};
    char *page = read_page();
    int count = 0;

    for (int kind = 0; kind < ADVICE_KINDS; kind++) {
        char heading[80];
        snprintf(heading, sizeof(heading), "\n### %s\n",
                 advice_anchor((enum advice_kind)kind));
        for (char *p = heading + 5; *p; p++) {
            *p = *p == '-' ? ' ' : *p;
        }
        heading[5] = (char)(heading[5] - 'a' + 'A');
        const char *at = strstr(page, heading);
        if (!at) {
            fail_msg("docs/recovery.md has no \"%s\"", heading + 1);
            return;
        }
        at += strlen(heading);
        const char *next = strstr(at, "\n### ");
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            const char *part = strstr(at, parts[i]);
            if (!part || (next && part > next)) {
                fail_msg("docs/recovery.md, %s: no %s", heading + 5, parts[i]);
            }
        }
    }
    for (const char *p = page; (p = strstr(p, "\n### ")); p++) {
        count++;
    }
    assert_int_equal(count, ADVICE_KINDS);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_names_what_is_needed),
        cmocka_unit_test(sockets_are_those_of_their_hosts),
        cmocka_unit_test(what_is_not_known_is_not_made_up),
        cmocka_unit_test(a_recovery_has_its_commands),
        cmocka_unit_test(what_cannot_be_recovered_is_not_advised),
        cmocka_unit_test(the_longest_is_whole),
        cmocka_unit_test(each_has_its_section),
    };
    return cmocka_run_group_tests_name("advice", tests, NULL, NULL);
}
