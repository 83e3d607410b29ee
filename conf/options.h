// SPDX-License-Identifier: BSD-3-Clause
/* The table of every option: the parser, the sample file, --help and the manual
 * come from it. Pure. */
#ifndef CONF_OPTIONS_H
#define CONF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The section whose options are those of each [peer "NAME"]. */
#define OPTIONS_PEER_SECTION "peer"

enum option_type {
    /*                         field of struct conf or struct conf_peer */
    OPTION_NAME,            /* char *: A-Z a-z 0-9 . _ - */
    OPTION_UINT,            /* unsigned */
    OPTION_MODE,            /* unsigned, octal */
    OPTION_SIZE,            /* uint64_t, bytes */
    OPTION_RATE,            /* uint64_t, bytes per second */
    OPTION_DURATION,        /* mp_time */
    OPTION_DIRECTORY,       /* char *, absolute */
    OPTION_DIRECTORY_LIST,  /* struct conf_list */
    OPTION_SOCKET,          /* char *, absolute path */
    OPTION_SOCKET_TEMPLATE, /* char *, absolute path with {vm} */
    OPTION_ADDRESS,         /* char *, HOST[:PORT] */
    OPTION_ADDRESS_LIST,    /* struct conf_list */
    OPTION_IDENTITY,        /* char * */
    OPTION_ALLOW,           /* unsigned, of enum conf_allow */
    OPTION_LOG_LEVEL,       /* int, enum log_level */
    OPTION_USER,            /* uid_t */
    OPTION_GROUP,           /* gid_t */
    OPTION_TYPES
};

struct option_row {
    const char *section;
    const char *key;
    enum option_type type;
    /* as it would stand in the file; "" = not set, which default_shown puts in
     * words */
    const char *default_text;
    const char *default_shown;
    /* of numbers, bytes (sizes), nanoseconds (durations), characters (names),
     * items (lists) */
    uint64_t min;
    uint64_t max;
    bool reloadable; /* SIGHUP suffices */
    size_t offset;   /* of the field */
    const char *help;
};

/* The rows, section by section. */
extern const struct option_row options_table[];
extern const size_t options_count;

/* Room that options_describe() needs at most. */
#define OPTIONS_DESCRIBE_SIZE 160

/* The row of that name, or NULL. */
const struct option_row *options_find(const char *section, const char *key);

/* Whether there is such a section. */
bool options_has_section(const char *section);

/* A row's index in the table. */
size_t options_index(const struct option_row *option);

/* Whether "KEY =" without a value stands for the option's default. */
bool options_may_be_empty(const struct option_row *option);

/* What the section is about, one sentence. */
const char *options_section_help(const char *section);

/* What is allowed: "a time from 1 s to 1 h (units: ...)". Returns buf. */
const char *options_describe(const struct option_row *option, char *buf,
                             size_t size);

#endif
