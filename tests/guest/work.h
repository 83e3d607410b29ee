// SPDX-License-Identifier: BSD-3-Clause
// The guest workload: what its parts share. See README.md for the report.
#ifndef GUEST_WORK_H
#define GUEST_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum work_order { ORDER_RANDOM, ORDER_SEQUENTIAL, ORDER_STRIDED };

enum {
    PAGE_BYTES = 4096,
    HIST_BUCKETS = 24, // bucket 0: below 1 us, bucket b: [2^(b-1), 2^b) us
    THREADS_MAX = 16,
};

// What the kernel command line asks for (work.NAME=VALUE).
struct work_options {
    uint64_t mib;              // size of the stamped memory
    enum work_order order;     // how pages are visited
    uint64_t stride;           // pages between two visits of ORDER_STRIDED
    uint64_t rate_per_second;  // visits of all threads; 0 = flat out
    uint64_t write_percent;    // visits that give the page a new generation
    uint64_t threads;          // 0 = one for each CPU
    uint64_t disk_interval_ms; // between two writes to the disk; 0 = none
    uint64_t beat_ms;          // between two bytes on the beat port; 0 = none
    uint64_t report_ms;        // between two reports
};

// CLOCK_MONOTONIC. It stands still while QEMU has the guest paused.
uint64_t now_us(void);
uint64_t now_ns(void);

// Sleeps until now_us() is at least WHEN_US.
void sleep_until_us(uint64_t when_us);

// CRC-32 (IEEE 802.3, as zlib's crc32()).
uint32_t crc32_of(const void *bytes, size_t size_bytes);

// Prints one line "work WORD ... sum=XXXXXXXX" in a single write.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Reports a fault of the workload itself and halts for ever.
void die(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

// The pages (pages.c).
struct pages_report {
    uint64_t visits; // since the start
    uint64_t wrong;  // pages found wrong since the start
    uint64_t swept;  // pages verified to the last word since the start
    uint64_t gap_us; // worst delay between two visits since the last report
    uint64_t hist[HIST_BUCKETS]; // visit latency since the last report
};
void pages_start(const struct work_options *options);
void pages_set_rate(uint64_t visits_per_second);
void pages_collect(struct pages_report *report);

// Stops all visits, then verifies every word of every page; returns the
// number of wrong pages found since the start.
uint64_t pages_finish(void);
uint64_t pages_count(void);

// The disk (disk.c).
void disk_start(const struct work_options *options);
void disk_stop(void);
uint64_t disk_sequence(void);
uint64_t disk_wrong(void);

// The 1 ms ticker (beat.c).
void beat_start(const struct work_options *options);
uint64_t beat_collect_gap_us(void); // worst since the last call

#endif
