// SPDX-License-Identifier: BSD-3-Clause
// Process 1 of the test guest: boots, starts the work, reports on it.
#include "work.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

static int console = 1;
static pthread_mutex_t console_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

uint64_t now_us(void)
{
    return now_ns() / 1000;
}

void sleep_until_us(uint64_t when_us)
{
    struct timespec ts = {.tv_sec = when_us / 1000000,
                          .tv_nsec = when_us % 1000000 * 1000};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

uint32_t crc32_of(const void *bytes, size_t size_bytes)
{
    static const uint32_t nibble[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *at = bytes;
    uint32_t crc = ~0u;

    while (size_bytes--) {
        crc ^= *at++;
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}

static void say_list(const char *format, va_list args)
{
    char line[LINE_MAX_BYTES] = "work ";
    size_t used = strlen(line), sent = 0;

    // room for the checksum and the end of the line
    vsnprintf(line + used, sizeof(line) - used - 20, format, args);
    used = strlen(line);
    used += sprintf(line + used, " sum=%08x\n", crc32_of(line, used));
    pthread_mutex_lock(&console_lock);
    while (sent < used) {
        ssize_t n = write(console, line + sent, used - sent);

        if (n <= 0)
            break;
        sent += n;
    }
    pthread_mutex_unlock(&console_lock);
}

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_list(format, args);
    va_end(args);
}

void die(const char *format, ...)
{
    char what[256];
    int saved = errno;
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    say("error errno=%d %s", saved, what);
    for (;;)
        pause();
}

static void mount_all(void)
{
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mkdir("/dev", 0755);
    if (mount("devtmpfs", "/dev", "devtmpfs", 0, NULL) ||
        mount("proc", "/proc", "proc", 0, NULL) ||
        mount("sysfs", "/sys", "sysfs", 0, NULL))
        die("what=mount");
}

// Output raw, so that a line is what say() made; input by lines.
static void open_console(void)
{
    struct termios tio;

    console = open("/dev/ttyS0", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (console < 0)
        die("what=open path=/dev/ttyS0");
    if (tcgetattr(console, &tio))
        die("what=tcgetattr");
    cfmakeraw(&tio);
    tio.c_lflag |= ICANON;
    if (tcsetattr(console, TCSANOW, &tio))
        die("what=tcsetattr");
}

// "/modules/order" lists the drivers, what they depend on first.
static void load_modules(void)
{
    char name[128], path[160];
    FILE *order = fopen("/modules/order", "re");

    if (!order)
        die("what=open path=/modules/order");
    while (fscanf(order, "%127s", name) == 1) {
        int fd;

        snprintf(path, sizeof(path), "/modules/%s", name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
            die("what=module name=%s", name);
        close(fd);
    }
    fclose(order);
}

static void read_line(const char *path, char *text, size_t size_bytes)
{
    FILE *file = fopen(path, "re");

    if (!file || !fgets(text, size_bytes, file))
        die("what=read path=%s", path);
    fclose(file);
    text[strcspn(text, "\n")] = 0;
}

static enum work_order order_of(const char *name)
{
    if (!strcmp(name, "random"))
        return ORDER_RANDOM;
    if (!strcmp(name, "sequential"))
        return ORDER_SEQUENTIAL;
    if (!strcmp(name, "strided"))
        return ORDER_STRIDED;
    die("what=option work.order=%s", name);
}

static void set_option(struct work_options *options, char *name)
{
    const struct {
        const char *name;
        uint64_t *value, min, max;
    } table[] = {
        {"mib", &options->mib, 1, 1 << 20},
        {"stride", &options->stride, 1, 1 << 20},
        {"rate", &options->rate_per_second, 0, 10000000},
        {"write", &options->write_percent, 0, 100},
        {"threads", &options->threads, 0, THREADS_MAX},
        {"disk", &options->disk_interval_ms, 0, 60000},
        {"beat", &options->beat_ms, 0, 1000},
        {"report", &options->report_ms, 50, 60000},
    };
    char *value = strchr(name, '='), *end;

    if (!value)
        die("what=option work.%s", name);
    *value++ = 0;
    if (!strcmp(name, "order")) {
        options->order = order_of(value);
        return;
    }
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        uint64_t n = strtoull(value, &end, 10);

        if (strcmp(name, table[i].name))
            continue;
        if (!*value || *end || n < table[i].min || n > table[i].max)
            die("what=option work.%s=%s min=%llu max=%llu", name, value,
                (unsigned long long)table[i].min,
                (unsigned long long)table[i].max);
        *table[i].value = n;
        return;
    }
    die("what=option work.%s=%s", name, value);
}

static void read_options(struct work_options *options)
{
    char text[2048], *at = text, *word;
    cpu_set_t cpus;

    read_line("/proc/cmdline", text, sizeof(text));
    while ((word = strsep(&at, " ")))
        if (!strncmp(word, "work.", 5))
            set_option(options, word + 5);
    if (!options->threads) {
        sched_getaffinity(0, sizeof(cpus), &cpus);
        options->threads = CPU_COUNT(&cpus);
        if (options->threads > THREADS_MAX)
            options->threads = THREADS_MAX;
    }
}

// What is worst and what was before, from report to report.
struct reporter {
    uint64_t number, visits, gap_us_max, tick_us_max, last_us;
};

static void report(struct reporter *reporter)
{
    struct pages_report pages;
    uint64_t tick_us = beat_collect_gap_us(), now = now_us();
    char hist[HIST_BUCKETS * 12] = "";
    size_t used = 0;

    pages_collect(&pages);
    if (pages.gap_us > reporter->gap_us_max)
        reporter->gap_us_max = pages.gap_us;
    if (tick_us > reporter->tick_us_max)
        reporter->tick_us_max = tick_us;
    for (unsigned b = 0; b < HIST_BUCKETS; b++)
        used += snprintf(hist + used, sizeof(hist) - used, "%s%llu",
                         b ? "," : "", (unsigned long long)pages.hist[b]);
    say("second n=%llu uptime_ms=%llu visits=%llu visits_per_s=%llu wrong=%llu "
        "gap_us=%llu gap_us_max=%llu tick_us=%llu tick_us_max=%llu hist=%s "
        "swept=%llu disk_seq=%llu disk_wrong=%llu",
        (unsigned long long)++reporter->number, (unsigned long long)now / 1000,
        (unsigned long long)pages.visits,
        (unsigned long long)((pages.visits - reporter->visits) * 1000000 /
                             (now - reporter->last_us + 1)),
        (unsigned long long)pages.wrong, (unsigned long long)pages.gap_us,
        (unsigned long long)reporter->gap_us_max, (unsigned long long)tick_us,
        (unsigned long long)reporter->tick_us_max, hist,
        (unsigned long long)pages.swept, (unsigned long long)disk_sequence(),
        (unsigned long long)disk_wrong());
    reporter->visits = pages.visits;
    reporter->last_us = now;
}

static void finish(void)
{
    disk_stop();
    uint64_t wrong = pages_finish();
    struct pages_report pages;

    pages_collect(&pages);
    say("final pages=%llu visits=%llu wrong=%llu swept=%llu disk_seq=%llu "
        "disk_wrong=%llu",
        (unsigned long long)pages_count(), (unsigned long long)pages.visits,
        (unsigned long long)wrong, (unsigned long long)pages.swept,
        (unsigned long long)disk_sequence(), (unsigned long long)disk_wrong());
    for (;;)
        pause();
}

static void obey(char *line)
{
    char *end;
    uint64_t rate;

    line[strcspn(line, "\r\n")] = 0;
    if (!strcmp(line, "final"))
        finish();
    if (!strncmp(line, "rate ", 5)) {
        rate = strtoull(line + 5, &end, 10);
        if (end != line + 5 && !*end) {
            pages_set_rate(rate);
            say("rate visits_per_s=%llu", (unsigned long long)rate);
            return;
        }
    }
    say("unknown command=%.40s", line);
}

static void report_and_obey(uint64_t period_us)
{
    struct reporter reporter = {.last_us = now_us()};
    uint64_t next_us = reporter.last_us + period_us;

    for (;;) {
        struct pollfd input = {.fd = console, .events = POLLIN};
        uint64_t now = now_us();
        char line[80];

        if (now >= next_us) {
            report(&reporter);
            next_us += period_us;
            if (next_us < now)
                next_us = now + period_us;
        } else if (poll(&input, 1, (next_us - now + 999) / 1000) > 0) {
            ssize_t n = read(console, line, sizeof(line) - 1);

            if (n > 0) {
                line[n] = 0;
                obey(line);
            }
        }
    }
}

int main(void)
{
    struct work_options options = {.mib = 64,
                                   .stride = 17,
                                   .write_percent = 50,
                                   .disk_interval_ms = 100,
                                   .beat_ms = 1,
                                   .report_ms = 1000};
    char clock[64];

    mount_all();
    open_console();
    load_modules();
    read_options(&options);
    read_line("/sys/devices/system/clocksource/clocksource0/"
              "current_clocksource",
              clock, sizeof(clock));
    pages_start(&options);
    disk_start(&options);
    beat_start(&options);
    say("ready pages=%llu threads=%llu clock=%s",
        (unsigned long long)pages_count(), (unsigned long long)options.threads,
        clock);
    report_and_obey(options.report_ms * 1000);
}
