// SPDX-License-Identifier: BSD-3-Clause
/* Follows a migration to its end. */
#include "tools/ctl-follow.h"

#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "qmp/json-value.h"
#include "tools/ctl-output.h"
#include "tools/ctl-report.h"
#include "util/cleanup.h"
#include "util/clock.h"

#define POLL_INTERVAL_MS 200
#define LINE_INTERVAL MP_SECOND /* not on a terminal */
#define LOST_TIME (10 * MP_SECOND)
#define WIDTH_DEFAULT 80
#define LINE_SIZE 200
#define PATH_SIZE 128

/* Ctrl-Cs so far. A signal handler can reach nothing but a global. */
static volatile sig_atomic_t interrupts;

struct follow {
    const struct ctl_call *call;
    const char *id;
    bool is_terminal;
    bool is_line_open; /* a progress line is on the terminal */
    bool asked_to_cancel;
    bool has_begun;     /* the daemon knew it once */
    mp_time lost_since; /* 0: the daemon answers */
    mp_time printed_at;
    char printed_state[32];
};

static void interrupt_cb(int signal)
{
    interrupts++;
}

void ctl_follow_catch_interrupts(void)
{
    /* no SA_RESTART: the wait between two requests shall end at once */
    struct sigaction action = {.sa_handler = interrupt_cb};
    sigaction(SIGINT, &action, NULL);
}

static unsigned terminal_width(void)
{
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1
               ? size.ws_col
               : WIDTH_DEFAULT;
}

/* Takes the progress line off the terminal, for something that stays. */
static void clear_line(struct follow *follow)
{
    if (follow->is_line_open) {
        fputs("\r\033[K", stderr);
        follow->is_line_open = false;
    }
}

static void say(struct follow *follow, const char *text)
{
    clear_line(follow);
    if (!follow->call->json) {
        ctl_output_print(stderr, "%s\n", text);
    }
}

static void print_progress(struct follow *follow, struct json_object *migration)
{
    char line[LINE_SIZE];
    const char *state = ctl_report_state(migration);
    bool is_new = strncmp(state, follow->printed_state,
                          sizeof(follow->printed_state) - 1) != 0;

    if (follow->call->json) {
        return;
    }
    ctl_report_progress(migration, line, sizeof(line));
    if (follow->is_terminal) {
        ctl_output_clean(line);
        fprintf(stderr, "\r%.*s\033[K", (int)terminal_width() - 1, line);
        fflush(stderr);
        follow->is_line_open = true;
    } else if (is_new || clock_now() - follow->printed_at >= LINE_INTERVAL) {
        ctl_output_print(stderr, "%s\n", line);
        follow->printed_at = clock_now();
        snprintf(follow->printed_state, sizeof(follow->printed_state), "%s",
                 state);
    }
}

/* What the daemon said when it refused to cancel. */
static void say_refusal(struct follow *follow, struct json_object *answer)
{
    struct json_object *error = NULL;
    struct json_object *message = NULL;
    char text[700];

    json_object_object_get_ex(answer, "error", &error);
    if (error) {
        json_object_object_get_ex(error, "message", &message);
    }
    snprintf(text, sizeof(text),
             "It cannot be cancelled: %s. Still following; Ctrl-C again leaves "
             "it running.",
             message ? json_object_get_string(message) : "no reason given");
    say(follow, text);
}

static void ask_to_cancel(struct follow *follow)
{
    char path[PATH_SIZE];
    struct error err = ERROR_INIT;
    CLEANUP_JSON struct json_object *answer = NULL;

    snprintf(path, sizeof(path), "/v1/migrations/%s/cancel", follow->id);
    int status =
        ctl_http_request(follow->call->http, "POST", path, NULL, &answer, &err);
    follow->asked_to_cancel = true;
    if (status == 200) {
        say(follow, "Asked the daemon to cancel, waiting for the outcome; "
                    "Ctrl-C again leaves.");
    } else if (status > 0) {
        say_refusal(follow, answer);
    } else {
        /* not asked: the next round tries again */
        follow->asked_to_cancel = false;
        say(follow, err.text);
    }
}

static enum ctl_exit leave(struct follow *follow)
{
    struct error err = ERROR_INIT;

    clear_line(follow);
    error_set(&err, ERR_CANCELLED,
              "no longer following: the migration goes on, see migproxyctl "
              "show %s",
              follow->id);
    return ctl_output_error(&err, follow->call->json);
}

/* Waits for the next round; ends early by Ctrl-C. */
static void wait_for_next(void)
{
    poll(NULL, 0, POLL_INTERVAL_MS);
}

/* No answer: false once it is enough. */
static bool bear_loss(struct follow *follow, const struct error *err)
{
    char text[700];

    if (!follow->lost_since) {
        follow->lost_since = clock_now();
        snprintf(text, sizeof(text), "%s; trying for %d s", err->text,
                 (int)(LOST_TIME / MP_SECOND));
        say(follow, text);
    }
    return clock_now() - follow->lost_since < LOST_TIME;
}

static enum ctl_exit end_lost(struct follow *follow, struct error *err)
{
    error_wrap(err, "migration %s may go on, but nobody can be asked",
               follow->id);
    clear_line(follow);
    return ctl_output_error(err, follow->call->json);
}

static enum ctl_exit end_over(struct follow *follow,
                              struct json_object *migration)
{
    clear_line(follow);
    if (follow->call->json) {
        ctl_output_json(migration);
    } else {
        ctl_report_print(migration);
    }
    return ctl_report_exit(migration);
}

/* One round: asks, shows. True when all is over, with the exit status. */
static bool follow_once(struct follow *follow, enum ctl_exit *ret_exit)
{
    char path[PATH_SIZE];
    struct error err = ERROR_INIT;
    CLEANUP_JSON struct json_object *answer = NULL;

    snprintf(path, sizeof(path), "/v1/migrations/%s", follow->id);
    int status =
        ctl_http_request(follow->call->http, "GET", path, NULL, &answer, &err);
    if (status < 0 || status >= 500) {
        if (status > 0) {
            error_set(&err, ERR_DAEMON_UNREACHABLE,
                      "the daemon answers with HTTP status %d", status);
        }
        *ret_exit = CTL_EXIT_FAILURE;
        if (bear_loss(follow, &err)) {
            return false;
        }
        *ret_exit = end_lost(follow, &err);
        return true;
    }
    follow->lost_since = 0;
    follow->has_begun |= status == 200;
    if (status != 200) {
        clear_line(follow);
        *ret_exit = ctl_output_refusal(follow->call, status, answer);
        if (follow->has_begun) {
            *ret_exit = CTL_EXIT_FAILURE; /* how it ended nobody knows */
        }
        return true;
    }
    if (ctl_report_is_over(answer)) {
        *ret_exit = end_over(follow, answer);
        return true;
    }
    print_progress(follow, answer);
    return false;
}

enum ctl_exit ctl_follow(const struct ctl_call *call, const char *id)
{
    struct follow follow = {.call = call,
                            .id = id,
                            .is_terminal = isatty(STDERR_FILENO),
                            .has_begun =
                                !call->id /* by this call, not named by it */};
    enum ctl_exit status;

    while (!follow_once(&follow, &status)) {
        if (interrupts > 1) {
            return leave(&follow);
        }
        if (interrupts == 1 && !follow.asked_to_cancel) {
            ask_to_cancel(&follow);
        }
        wait_for_next();
    }
    return status;
}
