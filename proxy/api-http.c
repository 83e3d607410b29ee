// SPDX-License-Identifier: BSD-3-Clause
/* The head of an HTTP/1.1 request, read strictly. */
#include "proxy/api-http.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "util/parse.h"

struct http_parse {
    struct api_http_head head;
    bool is_1_0;
    bool has_host;
    bool has_length;
    bool asks_close;
    bool asks_keep_alive;
    size_t body_max;
    int status;
    struct error *err;
};

/* A run of bytes in the head, not terminated. */
struct span {
    const char *at;
    size_t size;
};

static int fail(struct http_parse *parse, int status, const char *text)
{
    parse->status = status;
    return error_set(parse->err,
                     status == 413 || status == 414 || status == 431 ? ERR_LIMIT
                     : status == 400 ? ERR_BAD_REQUEST
                                     : ERR_UNSUPPORTED,
                     "%s", text);
}

static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct span s)
{
    for (size_t i = 0; i < s.size; i++) {
        if (!is_token_char(s.at[i])) {
            return false;
        }
    }
    return s.size > 0;
}

static bool is_same(struct span s, const char *word)
{
    return s.size == strlen(word) && !strncasecmp(s.at, word, s.size);
}

/* Cuts off and returns what stands before the first separator (all of s if
 * there is none). */
static struct span take_until(struct span *s, char separator)
{
    const char *end = memchr(s->at, separator, s->size);
    struct span part = {s->at, end ? (size_t)(end - s->at) : s->size};
    size_t taken = part.size + (end ? 1 : 0);

    s->at += taken;
    s->size -= taken;
    return part;
}

static struct span trim(struct span s)
{
    while (s.size > 0 && (*s.at == ' ' || *s.at == '\t')) {
        s.at++;
        s.size--;
    }
    while (s.size > 0 &&
           (s.at[s.size - 1] == ' ' || s.at[s.size - 1] == '\t')) {
        s.size--;
    }
    return s;
}

static int parse_target(struct http_parse *parse, struct span target)
{
    if (target.size > API_HTTP_TARGET_MAX) {
        return fail(parse, 414, "the path is longer than 1024 bytes");
    }
    if (target.size == 0 || target.at[0] != '/') {
        return fail(parse, 400, "the request line names no path");
    }
    for (size_t i = 0; i < target.size; i++) {
        if (target.at[i] <= ' ' || target.at[i] > '~') {
            return fail(parse, 400, "the path has a forbidden character");
        }
    }
    struct span path = take_until(&target, '?');
    parse->head.has_query = target.at > path.at + path.size;
    if (target.size > API_HTTP_QUERY_MAX) {
        return fail(parse, 414, "the query is longer than 128 bytes");
    }
    memcpy(parse->head.target, path.at, path.size);
    parse->head.target[path.size] = '\0';
    memcpy(parse->head.query, target.at, target.size);
    parse->head.query[target.size] = '\0';
    return 0;
}

static const char *const method_names[] = {
    [API_HTTP_GET] = "GET",     [API_HTTP_POST] = "POST",
    [API_HTTP_PATCH] = "PATCH", [API_HTTP_DELETE] = "DELETE",
    [API_HTTP_OTHER] = "",
};

const char *api_http_method_name(enum api_http_method method)
{
    return method_names[method];
}

static enum api_http_method find_method(struct span name)
{
    int method = 0;

    while (method < API_HTTP_OTHER &&
           (name.size != strlen(method_names[method]) ||
            memcmp(name.at, method_names[method], name.size))) {
        method++;
    }
    return (enum api_http_method)method;
}

static int parse_request_line(struct http_parse *parse, struct span line)
{
    struct span method = take_until(&line, ' ');
    struct span target = take_until(&line, ' ');

    if (!is_token(method)) {
        return fail(parse, 400, "the request line is not HTTP");
    }
    parse->head.method = find_method(method);
    snprintf(parse->head.method_name, sizeof(parse->head.method_name), "%.*s",
             (int)(method.size < 16 ? method.size : 15), method.at);
    if (parse_target(parse, target) < 0) {
        return -1;
    }
    if (line.size != 8 || memcmp(line.at, "HTTP/", 5)) {
        return fail(parse, 400, "the request line is not HTTP");
    }
    parse->is_1_0 = !memcmp(line.at, "HTTP/1.0", 8);
    if (!parse->is_1_0 && memcmp(line.at, "HTTP/1.1", 8)) {
        return fail(parse, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    return 0;
}

static int parse_length(struct http_parse *parse, struct span value)
{
    char digits[21];
    uint64_t length;

    if (parse->has_length) {
        return fail(parse, 400, "Content-Length is given twice");
    }
    if (value.size == 0 || value.size >= sizeof(digits)) {
        return fail(parse, 400, "Content-Length is not a number");
    }
    memcpy(digits, value.at, value.size);
    digits[value.size] = '\0';
    if (parse_uint(digits, 0, UINT64_MAX, &length, NULL) < 0) {
        return fail(parse, 400, "Content-Length is not a number");
    }
    if (length > parse->body_max) {
        parse->status = 413;
        return error_set(parse->err, ERR_LIMIT,
                         "the body has %s bytes, the limit is %zu", digits,
                         parse->body_max);
    }
    parse->has_length = true;
    parse->head.body_bytes = (size_t)length;
    return 0;
}

static int parse_host(struct http_parse *parse)
{
    if (parse->has_host) {
        return fail(parse, 400, "Host is given twice");
    }
    parse->has_host = true;
    return 0;
}

static void parse_connection(struct http_parse *parse, struct span value)
{
    while (value.size > 0) {
        struct span option = trim(take_until(&value, ','));
        parse->asks_close |= is_same(option, "close");
        parse->asks_keep_alive |= is_same(option, "keep-alive");
    }
}

static int parse_type(struct http_parse *parse, struct span value)
{
    if (parse->head.has_type) {
        return fail(parse, 400, "Content-Type is given twice");
    }
    parse->head.has_type = true;
    parse->head.is_json =
        is_same(trim(take_until(&value, ';')), "application/json");
    return 0;
}

static int parse_header(struct http_parse *parse, struct span line)
{
    struct span name = take_until(&line, ':');
    struct span value = trim(line);

    /* also refuses folded lines and a blank before the colon, both means to
     * smuggle a header past a reader */
    if (!is_token(name) || line.at == name.at + name.size) {
        return fail(parse, 400, "a header line is not NAME: VALUE");
    }
    if (is_same(name, "Content-Length")) {
        return parse_length(parse, value);
    }
    if (is_same(name, "Transfer-Encoding")) {
        return fail(parse, 411,
                    "Transfer-Encoding is not taken, send Content-Length");
    }
    if (is_same(name, "Host")) {
        return parse_host(parse);
    }
    if (is_same(name, "Content-Type")) {
        return parse_type(parse, value);
    }
    if (is_same(name, "Connection")) {
        parse_connection(parse, value);
    } else if (is_same(name, "Last-Event-ID")) {
        snprintf(parse->head.last_event_id, sizeof(parse->head.last_event_id),
                 "%.*s", (int)(value.size < 24 ? value.size : 23), value.at);
    } else if (is_same(name, "Expect")) {
        if (!is_same(value, "100-continue")) {
            return fail(parse, 417, "only Expect: 100-continue is understood");
        }
        parse->head.expects_continue = true;
    }
    return 0;
}

/* Finds the end of the head: its size with the empty line, 0 for not yet. Lines
 * that do not end in CR LF are refused at once, or their sender would wait for
 * the timeout. */
static int find_end(struct http_parse *parse, const char *bytes, size_t size)
{
    size_t line = 0; /* where the current one starts */

    for (size_t i = 0; i < size && i < API_HTTP_HEAD_MAX; i++) {
        if (bytes[i] == '\0' ||
            (bytes[i] == '\n' && (i == line || bytes[i - 1] != '\r'))) {
            return fail(parse, 400, "a header line does not end in CR LF");
        }
        if (bytes[i] == '\n' && i == line + 1) {
            parse->head.size = i + 1;
            return 0;
        }
        if (bytes[i] == '\n') {
            line = i + 1;
        }
    }
    if (size >= API_HTTP_HEAD_MAX) {
        return fail(parse, 431, "the headers are longer than 16384 bytes");
    }
    return 0;
}

static int parse_lines(struct http_parse *parse, struct span head)
{
    unsigned count = 0;
    struct span line = take_until(&head, '\n');

    line.size--; /* the CR */
    if (parse_request_line(parse, line) < 0) {
        return -1;
    }
    while (head.size > 2) {
        line = take_until(&head, '\n');
        line.size--;
        if (++count > API_HTTP_HEADERS_MAX) {
            return fail(parse, 431, "there are more than 64 headers");
        }
        if (parse_header(parse, line) < 0) {
            return -1;
        }
    }
    if (!parse->has_host && !parse->is_1_0) {
        return fail(parse, 400, "the header Host is missing");
    }
    parse->head.keep_alive =
        !parse->asks_close && (!parse->is_1_0 || parse->asks_keep_alive);
    return 0;
}

int api_http_parse(const char *bytes, size_t size, size_t body_max,
                   struct api_http_head *ret_head, int *ret_status,
                   struct error *err)
{
    struct http_parse parse = {.body_max = body_max, .err = err};

    if (find_end(&parse, bytes, size) < 0 ||
        (parse.head.size > 0 &&
         parse_lines(&parse, (struct span){bytes, parse.head.size}) < 0)) {
        *ret_status = parse.status;
        return -1;
    }
    if (parse.head.size == 0) {
        return 0;
    }
    *ret_head = parse.head;
    return 1;
}

const char *api_http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } rows[] = {
        {200, "OK"},
        {201, "Created"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].status == status) {
            return rows[i].reason;
        }
    }
    return "Unknown";
}
