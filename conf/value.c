// SPDX-License-Identifier: BSD-3-Clause
/* Values of options: text to the field that the option table names. */
#include "conf/value.h"

#include <arpa/inet.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>

#include "conf/conf.h"
#include "util/cleanup.h"
#include "util/log.h"
#include "util/parse.h"
#include "util/path.h"

#define ALPHANUMERIC                                                           \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* Longest word of a list. */
#define WORD_MAX 1024

/* Longest directory of a list: a socket in it needs "/" and a name. */
#define ITEM_MAX (PATH_SOCKET_MAX - 2)

static int no_memory(struct error *err)
{
    return error_set(err, ERR_NO_MEMORY, "out of memory");
}

/* "TEXT" is not WHAT THE OPTION TAKES */
static int refuse(const struct option_row *option, const char *text,
                  struct error *err)
{
    char what[OPTIONS_DESCRIBE_SIZE];
    return error_set(err, ERR_CONFIG, "\"%.80s%s\" is not %s", text,
                     strlen(text) > 80 ? "..." : "",
                     options_describe(option, what, sizeof(what)));
}

/* One item of a list. */
static int refuse_item(const struct option_row *option, const char *text,
                       struct error *err)
{
    if (option->type != OPTION_ADDRESS_LIST) {
        return error_set(err, ERR_CONFIG,
                         "\"%.80s%s\" is not an absolute directory of at most "
                         "%d bytes",
                         text, strlen(text) > 80 ? "..." : "", ITEM_MAX);
    }
    return error_set(err, ERR_CONFIG,
                     "\"%.80s%s\" is not an address (\"*\", HOST, HOST:PORT, "
                     "[IPV6] or [IPV6]:PORT, ports from 1 to 65535)",
                     text, strlen(text) > 80 ? "..." : "");
}

bool value_is_name(const char *text, size_t max)
{
    size_t length = strspn(text, ALPHANUMERIC "._-");
    return length > 0 && length <= max && !text[length] && text[0] != '.' &&
           text[0] != '-';
}

static bool is_ip(const char *text)
{
    unsigned char buf[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, text, buf) == 1 ||
           inet_pton(AF_INET6, text, buf) == 1;
}

bool value_is_identity(const char *text)
{
    size_t length = strlen(text);
    size_t scheme = strspn(text, ALPHANUMERIC "+.-");

    if (length > 255) {
        return false;
    }
    if (is_ip(text)) {
        return true;
    }
    if (scheme > 0 && text[scheme] == ':') {
        for (const char *p = text; *p; p++) {
            if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f) {
                return false;
            }
        }
        return text[scheme + 1] != '\0';
    }
    return value_is_name(text, 253);
}

/* --- texts -------------------------------------------------------------- */

static int set_text(char **field, const char *text, struct error *err)
{
    char *copy = strdup(text);
    if (!copy) {
        return no_memory(err);
    }
    free(*field);
    *field = copy;
    return 0;
}

static int set_name(const struct option_row *option, void *field,
                    const char *text, struct error *err)
{
    if (!value_is_name(text, option->max)) {
        return refuse(option, text, err);
    }
    return set_text(field, text, err);
}

static int set_identity(const struct option_row *option, void *field,
                        const char *text, struct error *err)
{
    if (!value_is_identity(text)) {
        return refuse(option, text, err);
    }
    return set_text(field, text, err);
}

typedef int (*refuse_fn)(const struct option_row *option, const char *text,
                         struct error *err);

/* Copies an absolute directory without slashes at its end. NULL if it is not
 * one (*err is set, by refuse_it unless it says more). */
static char *copy_directory(const struct option_row *option, const char *text,
                            size_t max, refuse_fn refuse_it, struct error *err)
{
    size_t length = strlen(text);

    while (length > 1 && text[length - 1] == '/') {
        length--;
    }
    if (text[0] != '/' || length > max) {
        refuse_it(option, text, err);
        return NULL;
    }
    for (const char *p = text; length > 1 && p < text + length;) {
        size_t part = strcspn(++p, "/");
        if (part == 0 || (part == 1 && p[0] == '.') ||
            (part == 2 && p[0] == '.' && p[1] == '.')) {
            error_set(err, ERR_CONFIG,
                      "\"%.80s\" has an empty, \".\" or \"..\" component",
                      text);
            return NULL;
        }
        p += part;
    }
    char *copy = strndup(text, length);
    if (!copy) {
        no_memory(err);
    }
    return copy;
}

static int set_directory(const struct option_row *option, void *field,
                         const char *text, struct error *err)
{
    char **target = field;
    char *copy = copy_directory(option, text, option->max, refuse, err);
    if (!copy) {
        return -1;
    }
    free(*target);
    *target = copy;
    return 0;
}

static int set_socket(const struct option_row *option, void *field,
                      const char *text, struct error *err)
{
    if (path_check_socket(text, err) < 0) {
        return -1;
    }
    return set_text(field, text, err);
}

static int set_socket_template(const struct option_row *option, void *field,
                               const char *text, struct error *err)
{
    CLEANUP_FREE char *example = NULL;
    const char *base = strrchr(text, '/');

    if (!base || !strstr(base, "{vm}")) {
        return refuse(option, text, err);
    }
    for (const char *p = text; (p = strpbrk(p, "{}")); p += strlen("{vm}")) {
        if (strncmp(p, "{vm}", strlen("{vm}"))) {
            return error_set(err, ERR_CONFIG,
                             "\"%.80s\" has \"%.20s\": {vm} is the only "
                             "thing in braces that can stand there",
                             text, p);
        }
    }
    if (path_expand_vm(text, "x", &example, err) < 0) {
        return -1;
    }
    return set_text(field, text, err);
}

static int check_address(const struct option_row *option, const char *text,
                         bool is_listening, struct error *err)
{
    char host[PARSE_HOST_SIZE];
    unsigned port;

    if (parse_host_port(text, CONF_DEFAULT_PORT, host, &port, NULL) < 0 ||
        port == 0 || (!is_listening && !host[0])) {
        return is_listening ? refuse_item(option, text, err)
                            : refuse(option, text, err);
    }
    return 0;
}

static int set_address(const struct option_row *option, void *field,
                       const char *text, struct error *err)
{
    if (check_address(option, text, false, err) < 0) {
        return -1;
    }
    return set_text(field, text, err);
}

/* --- lists -------------------------------------------------------------- */

static void list_done(struct conf_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct conf_list){0};
}

/* Takes the next word of a list (blanks, commas between). False at the end. */
static bool next_word(const char **text, const char **ret_word,
                      size_t *ret_length)
{
    *text += strspn(*text, " \t,");
    *ret_word = *text;
    *ret_length = strcspn(*text, " \t,");
    *text += *ret_length;
    return *ret_length > 0;
}

/* One item of a list, checked and copied; NULL and *err on failure. */
static char *copy_item(const struct option_row *option, const char *word,
                       struct error *err)
{
    if (option->type == OPTION_DIRECTORY_LIST) {
        return copy_directory(option, word, ITEM_MAX, refuse_item, err);
    }
    if (check_address(option, word, true, err) < 0) {
        return NULL;
    }
    char *copy = strdup(word);
    if (!copy) {
        no_memory(err);
    }
    return copy;
}

static int set_list(const struct option_row *option, void *field,
                    const char *text, struct error *err)
{
    CLEANUP(list_done) struct conf_list list = {0};
    const char *word, *rest = text;
    size_t length;

    list.items = calloc(option->max, sizeof(*list.items));
    if (!list.items) {
        return no_memory(err);
    }
    while (next_word(&rest, &word, &length)) {
        char item[WORD_MAX + 1];
        if (list.count == option->max || length > WORD_MAX) {
            return refuse(option, text, err);
        }
        memcpy(item, word, length);
        item[length] = '\0';
        list.items[list.count] = copy_item(option, item, err);
        if (!list.items[list.count]) {
            return -1;
        }
        list.count++;
    }
    if (list.count < option->min) {
        return refuse(option, text, err);
    }
    struct conf_list *target = field;
    struct conf_list old = *target;
    *target = list;
    list = old; /* released here */
    return 0;
}

static int set_allow(const struct option_row *option, void *field,
                     const char *text, struct error *err)
{
    static const char *const names[] = {"send", "receive", "name-paths",
                                        "libvirt-control"};
    const char *word, *rest = text;
    unsigned allow = 0;
    size_t length;

    while (next_word(&rest, &word, &length)) {
        unsigned bit = 0;
        for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            if (strlen(names[i]) == length && !memcmp(names[i], word, length)) {
                bit = 1u << i;
            }
        }
        if (!bit) {
            return refuse(option, text, err);
        }
        allow |= bit;
    }
    *(unsigned *)field = allow;
    return 0;
}

/* --- numbers ------------------------------------------------------------ */

static int set_uint(const struct option_row *option, void *field,
                    const char *text, struct error *err)
{
    uint64_t value;
    if (parse_uint(text, option->min, option->max, &value, err) < 0) {
        return -1;
    }
    *(unsigned *)field = (unsigned)value;
    return 0;
}

static int set_mode(const struct option_row *option, void *field,
                    const char *text, struct error *err)
{
    return parse_octal(text, (unsigned)option->max, field, err);
}

static int set_size(const struct option_row *option, void *field,
                    const char *text, struct error *err)
{
    return parse_size(text, option->min, option->max, field, err);
}

static int set_rate(const struct option_row *option, void *field,
                    const char *text, struct error *err)
{
    return parse_rate(text, field, err);
}

static int set_duration(const struct option_row *option, void *field,
                        const char *text, struct error *err)
{
    return parse_duration(text, (mp_time)option->min, (mp_time)option->max,
                          field, err);
}

static int set_log_level(const struct option_row *option, void *field,
                         const char *text, struct error *err)
{
    enum log_level level;
    if (!log_parse_level(text, &level)) {
        return refuse(option, text, err);
    }
    *(int *)field = (int)level;
    return 0;
}

static int set_user(const struct option_row *option, void *field,
                    const char *text, struct error *err)
{
    uint64_t number;
    const struct passwd *entry;

    if (!*text) {
        number = CONF_NO_USER;
    } else if (parse_uint(text, 0, CONF_NO_USER - 1, &number, NULL) < 0) {
        entry = getpwnam(text);
        if (!entry) {
            return refuse(option, text, err);
        }
        number = entry->pw_uid;
    }
    *(uid_t *)field = (uid_t)number;
    return 0;
}

static int set_group(const struct option_row *option, void *field,
                     const char *text, struct error *err)
{
    uint64_t number;
    const struct group *entry;

    if (!*text) {
        number = CONF_NO_GROUP;
    } else if (parse_uint(text, 0, CONF_NO_GROUP - 1, &number, NULL) < 0) {
        entry = getgrnam(text);
        if (!entry) {
            return refuse(option, text, err);
        }
        number = entry->gr_gid;
    }
    *(gid_t *)field = (gid_t)number;
    return 0;
}

/* --- all types ---------------------------------------------------------- */

enum storage { STORAGE_TEXT, STORAGE_LIST, STORAGE_WORD32, STORAGE_WORD64 };

struct type_row {
    enum storage storage;
    int (*set)(const struct option_row *option, void *field, const char *text,
               struct error *err);
};

static const struct type_row types[] = {
    [OPTION_NAME] = {STORAGE_TEXT, set_name},
    [OPTION_UINT] = {STORAGE_WORD32, set_uint},
    [OPTION_MODE] = {STORAGE_WORD32, set_mode},
    [OPTION_SIZE] = {STORAGE_WORD64, set_size},
    [OPTION_RATE] = {STORAGE_WORD64, set_rate},
    [OPTION_DURATION] = {STORAGE_WORD64, set_duration},
    [OPTION_DIRECTORY] = {STORAGE_TEXT, set_directory},
    [OPTION_DIRECTORY_LIST] = {STORAGE_LIST, set_list},
    [OPTION_SOCKET] = {STORAGE_TEXT, set_socket},
    [OPTION_SOCKET_TEMPLATE] = {STORAGE_TEXT, set_socket_template},
    [OPTION_ADDRESS] = {STORAGE_TEXT, set_address},
    [OPTION_ADDRESS_LIST] = {STORAGE_LIST, set_list},
    [OPTION_IDENTITY] = {STORAGE_TEXT, set_identity},
    [OPTION_ALLOW] = {STORAGE_WORD32, set_allow},
    [OPTION_LOG_LEVEL] = {STORAGE_WORD32, set_log_level},
    [OPTION_USER] = {STORAGE_WORD32, set_user},
    [OPTION_GROUP] = {STORAGE_WORD32, set_group},
};

_Static_assert(sizeof(types) / sizeof(types[0]) == OPTION_TYPES,
               "each type has a row");
_Static_assert(sizeof(unsigned) == 4 && sizeof(gid_t) == 4 &&
                   sizeof(uid_t) == 4 && sizeof(mp_time) == 8,
               "the words are as wide as their storage");

int value_set(const struct option_row *option, void *base, const char *text,
              struct error *err)
{
    void *field = (char *)base + option->offset;
    const struct type_row *type = &types[option->type];
    bool unset =
        !*text && options_may_be_empty(option) && type->storage == STORAGE_TEXT;

    int rc =
        unset ? set_text(field, "", err) : type->set(option, field, text, err);
    if (rc < 0) {
        return error_wrap(err, "%s.%s", option->section, option->key);
    }
    return 0;
}

void value_free(const struct option_row *option, void *base)
{
    void *field = (char *)base + option->offset;

    if (types[option->type].storage == STORAGE_TEXT) {
        char **text = field;
        free(*text);
        *text = NULL;
    } else if (types[option->type].storage == STORAGE_LIST) {
        list_done(field);
    }
}

static int copy_list(struct conf_list *field, const struct conf_list *from,
                     struct error *err)
{
    CLEANUP(list_done) struct conf_list list = {0};

    list.items = calloc(from->count, sizeof(*list.items));
    if (!list.items) {
        return no_memory(err);
    }
    for (; list.count < from->count; list.count++) {
        list.items[list.count] = strdup(from->items[list.count]);
        if (!list.items[list.count]) {
            return no_memory(err);
        }
    }
    struct conf_list old = *field;
    *field = list;
    list = old; /* released here */
    return 0;
}

int value_copy(const struct option_row *option, void *base, const void *from,
               struct error *err)
{
    void *field = (char *)base + option->offset;
    const void *source = (const char *)from + option->offset;

    switch (types[option->type].storage) {
    case STORAGE_TEXT:
        return set_text(field, *(char *const *)source, err);
    case STORAGE_LIST:
        return copy_list(field, source, err);
    case STORAGE_WORD32:
        memcpy(field, source, 4);
        return 0;
    case STORAGE_WORD64:
        memcpy(field, source, 8);
        return 0;
    }
    return 0;
}

static bool is_equal_list(const struct conf_list *a, const struct conf_list *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i], b->items[i]) != 0) {
            return false;
        }
    }
    return true;
}

bool value_is_equal(const struct option_row *option, const void *a,
                    const void *b)
{
    const void *field_a = (const char *)a + option->offset;
    const void *field_b = (const char *)b + option->offset;

    switch (types[option->type].storage) {
    case STORAGE_TEXT:
        return !strcmp(*(char *const *)field_a, *(char *const *)field_b);
    case STORAGE_LIST:
        return is_equal_list(field_a, field_b);
    case STORAGE_WORD32:
        return !memcmp(field_a, field_b, 4);
    case STORAGE_WORD64:
        return !memcmp(field_a, field_b, 8);
    }
    return false;
}
