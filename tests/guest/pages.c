// SPDX-License-Identifier: BSD-3-Clause
// Stamps, visits and verifies the guest's pages.
//
// Each page holds its index, its generation, a checksum and 509 words made
// from index and generation, which do not compress. What the generation must
// be is kept apart, so a page that is old (a lost update) is as wrong as a
// page with a broken word. A thread owns its range of pages: no locks.
#include "work.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum {
    BODY_WORDS = PAGE_BYTES / 8 - 3,
    QUICK_WORDS = 8,       // words looked at on every visit
    SWEEP_EVERY = 16,      // visits between two pages verified in full
    RATE_SLACK_US = 1000,  // a visit may be this early, to sleep less often
    RATE_LATE_US = 100000, // later than this is not caught up with
    WRONG_SHOWN = 16,      // wrong pages that get a line of their own
};

struct page {
    uint64_t index;
    uint64_t generation;
    uint64_t sum;
    uint64_t body[BODY_WORDS];
};
_Static_assert(sizeof(struct page) == PAGE_BYTES, "a page is a page");

struct worker {
    // set once
    pthread_t thread;
    uint64_t first, count; // its pages
    // its own
    uint64_t random;
    uint64_t cursor, base; // of sequential and strided order
    uint64_t sweep;        // next page to be verified in full
    uint64_t last_us;      // end of the last visit
    uint64_t due_us;       // the next visit's time when there is a rate
    // read by the reporter
    _Atomic uint64_t visits, wrong, swept, gap_us;
    _Atomic uint64_t hist[HIST_BUCKETS];
};

static struct {
    struct work_options options;
    struct page *pages;
    uint32_t *generations; // what each page must carry
    uint64_t count;
    _Atomic uint64_t rate_per_second;
    atomic_bool stop;
    _Atomic uint64_t wrong_shown;
    uint64_t hist_before[HIST_BUCKETS];
    struct worker workers[THREADS_MAX];
} all;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t page_seed(uint64_t index, uint64_t generation)
{
    return mix(index * 0x9e3779b97f4a7c15u + mix(generation + 1));
}

// One multiplication only: this runs 509 times for each page, under TCG.
static uint64_t body_word(uint64_t seed, unsigned i)
{
    uint64_t x = seed + i * 0x9e3779b97f4a7c15u;

    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static uint64_t sum_add(uint64_t sum, uint64_t word)
{
    return (sum << 5 | sum >> 59) + word;
}

static void stamp(struct page *page, uint64_t index, uint64_t generation)
{
    uint64_t seed = page_seed(index, generation), sum = seed;

    page->index = index;
    page->generation = generation;
    for (unsigned i = 0; i < BODY_WORDS; i++) {
        page->body[i] = body_word(seed, i);
        sum = sum_add(sum, page->body[i]);
    }
    page->sum = sum;
}

// Counts a wrong page, says what is wrong with it and makes it right, so
// that one damage is counted once.
static void wrong(struct worker *worker, uint64_t index, const char *what,
                  unsigned word, uint64_t want, uint64_t got)
{
    atomic_fetch_add(&worker->wrong, 1);
    if (atomic_fetch_add(&all.wrong_shown, 1) < WRONG_SHOWN)
        say("wrong page=%llu generation=%u what=%s word=%u want=%016llx "
            "got=%016llx",
            (unsigned long long)index, all.generations[index], what, word,
            (unsigned long long)want, (unsigned long long)got);
    stamp(&all.pages[index], index, ++all.generations[index]);
}

static bool verify_head(struct worker *worker, uint64_t index)
{
    struct page *page = &all.pages[index];

    if (page->index != index) {
        wrong(worker, index, "index", 0, index, page->index);
        return false;
    }
    if (page->generation != all.generations[index]) {
        wrong(worker, index, "generation", 1, all.generations[index],
              page->generation);
        return false;
    }
    return true;
}

static bool verify_word(struct worker *worker, uint64_t index, uint64_t seed,
                        unsigned i)
{
    uint64_t want = body_word(seed, i), got = all.pages[index].body[i];

    if (want == got)
        return true;
    wrong(worker, index, "body", i + 3, want, got);
    return false;
}

static void verify_quick(struct worker *worker, uint64_t index)
{
    uint64_t seed = page_seed(index, all.generations[index]);
    unsigned at = worker->random >> 40;

    if (!verify_head(worker, index))
        return;
    for (unsigned i = 0; i < QUICK_WORDS; i++, at += BODY_WORDS / QUICK_WORDS)
        if (!verify_word(worker, index, seed, at % BODY_WORDS))
            return;
}

static void verify_full(struct worker *worker, uint64_t index)
{
    struct page *page = &all.pages[index];
    uint64_t seed = page_seed(index, all.generations[index]), sum = seed;

    atomic_fetch_add_explicit(&worker->swept, 1, memory_order_relaxed);
    if (!verify_head(worker, index))
        return;
    for (unsigned i = 0; i < BODY_WORDS; i++) {
        sum = sum_add(sum, page->body[i]);
        if (!verify_word(worker, index, seed, i))
            return;
    }
    if (sum != page->sum)
        wrong(worker, index, "sum", 2, sum, page->sum);
}

static uint64_t next_random(struct worker *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

static uint64_t next_index(struct worker *worker, uint64_t random)
{
    uint64_t at = worker->cursor;

    switch (all.options.order) {
    case ORDER_RANDOM:
        return worker->first + (random >> 16) % worker->count;
    case ORDER_SEQUENTIAL:
        worker->cursor = (at + 1) % worker->count;
        break;
    case ORDER_STRIDED:
        // each pass starts one page further, so that every page has its turn
        worker->cursor += all.options.stride;
        if (worker->cursor >= worker->count) {
            worker->base = (worker->base + 1) % all.options.stride;
            worker->cursor = worker->base % worker->count;
        }
        break;
    }
    return worker->first + at;
}

static void visit(struct worker *worker)
{
    uint64_t random = next_random(worker);
    uint64_t index = next_index(worker, random);

    if (random % 100 < all.options.write_percent) {
        // in full: the new stamp would hide a damage
        verify_full(worker, index);
        all.generations[index]++;
        stamp(&all.pages[index], index, all.generations[index]);
    } else {
        verify_quick(worker, index);
    }
}

static void count_visit(struct worker *worker, uint64_t start_us)
{
    uint64_t end_us = now_us(), latency_us = end_us - start_us;
    uint64_t since_us = worker->last_us;
    unsigned bucket = latency_us ? 64 - __builtin_clzll(latency_us) : 0;

    if (bucket >= HIST_BUCKETS)
        bucket = HIST_BUCKETS - 1;
    atomic_fetch_add_explicit(&worker->hist[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->visits, 1, memory_order_relaxed);
    // waiting for the due time is no gap
    if (since_us < worker->due_us)
        since_us = worker->due_us;
    if (end_us > since_us && end_us - since_us > atomic_load(&worker->gap_us))
        atomic_store(&worker->gap_us, end_us - since_us);
    worker->last_us = end_us;
}

static void wait_for_rate(struct worker *worker)
{
    uint64_t rate = atomic_load(&all.rate_per_second), now = now_us();

    if (!rate) {
        worker->due_us = 0;
        return;
    }
    worker->due_us += all.options.threads * 1000000 / rate;
    if (worker->due_us + RATE_LATE_US < now)
        worker->due_us = now;
    if (worker->due_us > now + RATE_SLACK_US)
        sleep_until_us(worker->due_us);
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    worker->last_us = now_us();
    for (uint64_t n = 0; !atomic_load(&all.stop); n++) {
        wait_for_rate(worker);

        uint64_t start_us = now_us();

        visit(worker);
        count_visit(worker, start_us);
        if (n % SWEEP_EVERY == 0) {
            verify_full(worker, worker->first + worker->sweep);
            worker->sweep = (worker->sweep + 1) % worker->count;
        }
    }
    for (uint64_t i = 0; i < worker->count; i++)
        verify_full(worker, worker->first + i);
    return NULL;
}

static void *map(uint64_t size_bytes)
{
    void *at = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (at == MAP_FAILED)
        die("what=mmap bytes=%llu", (unsigned long long)size_bytes);
    return at;
}

void pages_start(const struct work_options *options)
{
    uint64_t share;

    all.options = *options;
    all.count = options->mib * 1048576 / PAGE_BYTES;
    all.rate_per_second = options->rate_per_second;
    all.pages = map(all.count * PAGE_BYTES);
    all.generations = map(all.count * sizeof(all.generations[0]));
    for (uint64_t i = 0; i < all.count; i++)
        stamp(&all.pages[i], i, all.generations[i]);
    share = all.count / options->threads;
    for (unsigned t = 0; t < options->threads; t++) {
        struct worker *worker = &all.workers[t];

        worker->first = t * share;
        worker->count =
            t + 1 < options->threads ? share : all.count - worker->first;
        worker->random = mix(t + 1);
        if (pthread_create(&worker->thread, NULL, work, worker))
            die("what=pthread_create thread=%u", t);
    }
}

void pages_set_rate(uint64_t visits_per_second)
{
    atomic_store(&all.rate_per_second, visits_per_second);
}

void pages_collect(struct pages_report *report)
{
    *report = (struct pages_report){0};
    for (unsigned t = 0; t < all.options.threads; t++) {
        struct worker *worker = &all.workers[t];
        uint64_t gap_us = atomic_exchange(&worker->gap_us, 0);

        report->visits += atomic_load(&worker->visits);
        report->wrong += atomic_load(&worker->wrong);
        report->swept += atomic_load(&worker->swept);
        if (gap_us > report->gap_us)
            report->gap_us = gap_us;
        for (unsigned b = 0; b < HIST_BUCKETS; b++)
            report->hist[b] += atomic_load(&worker->hist[b]);
    }
    for (unsigned b = 0; b < HIST_BUCKETS; b++) {
        uint64_t total = report->hist[b];

        report->hist[b] -= all.hist_before[b];
        all.hist_before[b] = total;
    }
}

uint64_t pages_finish(void)
{
    uint64_t found = 0;

    atomic_store(&all.stop, true);
    for (unsigned t = 0; t < all.options.threads; t++) {
        pthread_join(all.workers[t].thread, NULL);
        found += atomic_load(&all.workers[t].wrong);
    }
    return found;
}

uint64_t pages_count(void)
{
    return all.count;
}
