// SPDX-License-Identifier: BSD-3-Clause
/* migproxyctl: asks a daemon by its API, and gives it orders. */
#include "config.h"

#include <curl/curl.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/ctl-output.h"
#include "tools/ctl.h"
#include "util/path.h"

#define API_DEFAULT "/run/migproxy/api.sock"

/* Values of getopt_long() for options of every command; those of a command
 * itself are OPTION_OWN and up. */
enum {
    OPTION_HELP = 'h',
    OPTION_API = 256,
    OPTION_JSON,
    OPTION_VERSION,
    OPTION_OWN
};

static const struct ctl_command commands[] = {
    {"migrate", CTL_TAKES_NOTHING, "migrate a guest from this host to a peer",
     ctl_migrate_details, ctl_migrate_options, ctl_migrate},
    {"list", CTL_TAKES_NOTHING, "list the migrations the daemon knows", NULL,
     NULL, ctl_list},
    {"show", CTL_TAKES_ID, "show one migration", NULL, NULL, ctl_show},
    {"watch", CTL_MAY_TAKE_ID, "follow one migration, or all",
     ctl_watch_details, NULL, ctl_watch},
    {"cancel", CTL_TAKES_ID, "ask for a migration to be cancelled",
     "Of one that has ended it does nothing. After the point of no return the\n"
     "daemon refuses.\n",
     NULL, ctl_cancel},
    {"close", CTL_TAKES_ID, "say that a migration in attention was settled",
     ctl_close_details, ctl_close_options, ctl_close},
    {"set", CTL_TAKES_ID, "change the limits of a migration", ctl_set_details,
     ctl_set_options, ctl_set},
    {"postcopy", CTL_TAKES_ID, "switch a migration to postcopy now", NULL, NULL,
     ctl_postcopy},
    {"incoming", CTL_TAKES_NOTHING, "say which QEMU waits for which guest",
     ctl_incoming_details, ctl_incoming_options, ctl_incoming},
    {"peers", CTL_TAKES_NOTHING, "list the peers and how they are", NULL, NULL,
     ctl_peers},
    {"host", CTL_TAKES_NOTHING, "show the daemon: name, version, limits", NULL,
     NULL, ctl_host},
    {.name = NULL},
};

static const struct option common_options[] = {
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"api", required_argument, NULL, OPTION_API},
    {"json", no_argument, NULL, OPTION_JSON},
    {NULL, 0, NULL, 0},
};
#define COMMON_COUNT (sizeof(common_options) / sizeof(common_options[0]) - 1)

/* What was said so far. */
struct command_line {
    const char *api;
    const struct ctl_command *command; /* NULL: none yet */
    struct ctl_call call;
    bool is_over; /* help or version was printed */
};

static void print_common_options(void)
{
    printf("  --api PATH             the daemon's socket (default: "
           "$MIGPROXY_API, else\n"
           "                         " API_DEFAULT ")\n"
           "  --json                 print one JSON object\n"
           "  -h, --help             this text\n"
           "  --version              the version\n");
}

static const char *id_text(const struct ctl_command *command)
{
    return command->takes == CTL_TAKES_ID      ? "ID"
           : command->takes == CTL_MAY_TAKE_ID ? "[ID]"
                                               : "";
}

static void print_help(void)
{
    printf("Usage: migproxyctl [OPTION...] COMMAND [ARGUMENT...]\n"
           "\n"
           "Commands:\n");
    for (const struct ctl_command *c = commands; c->name; c++) {
        printf("  %-8s %-4s  %s\n", c->name, id_text(c), c->summary);
    }
    printf("\nOptions, before or after the command:\n");
    print_common_options();
    printf(
        "\n\"migproxyctl COMMAND --help\" says more. Exit status: 0 done, "
        "1 failure,\n2 usage, 3 refused: nothing was changed; of migrate and "
        "watch ID also 4 and 5\n(see their help).\n");
}

static void print_command_help(const struct ctl_command *command)
{
    printf("Usage: migproxyctl %s%s%s [OPTION...]\n\n%s: %s.\n", command->name,
           *id_text(command) ? " " : "", id_text(command), command->name,
           command->summary);
    if (command->details) {
        printf("\n%s", command->details);
    }
    printf("\nOptions:\n");
    for (const struct ctl_option *o = command->options; o && o->name; o++) {
        char name[40];
        snprintf(name, sizeof(name), "--%s %s", o->name, o->arg);
        printf("  %-22s %s\n", name, o->help);
    }
    print_common_options();
}

static int fail_usage(const struct command_line *line, const char *text,
                      const char *what)
{
    struct error err = ERROR_INIT;

    error_set(&err, ERR_BAD_REQUEST, "%s%s%s%s; see migproxyctl%s%s --help",
              text, *what ? " \"" : "", what, *what ? "\"" : "",
              line->command ? " " : "",
              line->command ? line->command->name : "");
    ctl_output_error(&err, line->call.json);
    return -1;
}

/* The options a command takes: the common ones, then its own. */
static void make_options(const struct ctl_command *command,
                         struct option options[])
{
    size_t count = COMMON_COUNT;

    memcpy(options, common_options, sizeof(common_options));
    for (size_t i = 0; command && command->options && command->options[i].name;
         i++) {
        options[count++] =
            (struct option){command->options[i].name, required_argument, NULL,
                            OPTION_OWN + (int)i};
    }
    options[count] = (struct option){NULL, 0, NULL, 0};
}

/* Which of two values was meant nobody knows. */
static int take_value(const struct command_line *line, const char **value,
                      const char *name)
{
    char option[40];

    if (*value) {
        snprintf(option, sizeof(option), "--%s", name);
        return fail_usage(line, "this option is given twice:", option);
    }
    *value = optarg;
    return 0;
}

static int take_option(struct command_line *line, int option, char **argv)
{
    switch (option) {
    case OPTION_HELP:
        if (line->command) {
            print_command_help(line->command);
        } else {
            print_help();
        }
        line->is_over = true;
        return 0;
    case OPTION_VERSION:
        printf("migproxyctl %s\nlibcurl %s, json-c %s\n", PACKAGE_VERSION,
               curl_version_info(CURLVERSION_NOW)->version, json_c_version());
        line->is_over = true;
        return 0;
    case OPTION_API:
        return take_value(line, &line->api, "api");
    case OPTION_JSON:
        line->call.json = true;
        return 0;
    case ':':
        return fail_usage(line, "this option needs a value:", argv[optind - 1]);
    case '?':
        return fail_usage(line, "unknown option", argv[optind - 1]);
    default:
        option -= OPTION_OWN;
        return take_value(line, &line->call.value[option],
                          line->command->options[option].name);
    }
}

/* Reads options up to the first word that is none ("+") or all of them. */
static int take_options(struct command_line *line, int argc, char **argv,
                        const char *how)
{
    struct option options[COMMON_COUNT + CTL_OPTIONS_MAX + 1];
    int option;

    make_options(line->command, options);
    opterr = 0;
    while (!line->is_over &&
           (option = getopt_long(argc, argv, how, options, NULL)) != -1) {
        if (take_option(line, option, argv) < 0) {
            return -1;
        }
    }
    return 0;
}

static int take_command(struct command_line *line, const char *word)
{
    for (const struct ctl_command *c = commands; c->name; c++) {
        if (word && !strcmp(c->name, word)) {
            line->command = c;
            line->call.options = c->options;
            return 0;
        }
    }
    return word ? fail_usage(line, "unknown command", word)
                : fail_usage(line, "no command", "");
}

/* The words that are left: an ID, or none. */
static int take_words(struct command_line *line, int count, char **words)
{
    int most = line->command->takes != CTL_TAKES_NOTHING;

    if (count < 1 && line->command->takes == CTL_TAKES_ID) {
        return fail_usage(line, "the migration's ID is missing", "");
    }
    if (count > most) {
        return fail_usage(line, "unexpected argument", words[most]);
    }
    line->call.id = count ? words[0] : NULL;
    return 0;
}

static int parse_command_line(struct command_line *line, int argc, char **argv)
{
    if (take_options(line, argc, argv, "+:h") < 0) {
        return -1;
    }
    if (line->is_over) {
        return 0;
    }
    if (take_command(line, argv[optind]) < 0) {
        return -1;
    }
    argc -= optind;
    argv += optind;
    optind = 0; /* glibc: begin anew, the command being the program's name */
    if (take_options(line, argc, argv, ":h") < 0) {
        return -1;
    }
    return line->is_over ? 0 : take_words(line, argc - optind, argv + optind);
}

static int run(struct command_line *line)
{
    struct error err = ERROR_INIT;

    line->call.http = ctl_http_new(line->api, &err);
    if (!line->call.http) {
        return (int)ctl_output_error(&err, line->call.json);
    }
    int status = line->command->run(&line->call);
    ctl_http_free(line->call.http);
    return status;
}

/* Where the daemon's socket is: by the option, else by the environment. */
static int choose_api(struct command_line *line)
{
    struct error err = ERROR_INIT;
    const char *from = "--api";

    if (!line->api) {
        line->api = getenv("MIGPROXY_API");
        from = "MIGPROXY_API";
        if (!line->api || !*line->api) {
            line->api = API_DEFAULT;
        }
    }
    if (path_check_length(line->api, &err) < 0) {
        err.code = ERR_BAD_REQUEST;
        error_wrap(&err, "%s", from);
        ctl_output_error(&err, line->call.json);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct command_line line = {.api = NULL};

    if (parse_command_line(&line, argc, argv) < 0 ||
        (!line.is_over && choose_api(&line) < 0)) {
        return CTL_EXIT_USAGE;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int status = line.is_over ? CTL_EXIT_DONE : run(&line);
    curl_global_cleanup();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("migproxyctl: writing to standard output");
        return CTL_EXIT_FAILURE;
    }
    return status;
}
