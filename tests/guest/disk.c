// SPDX-License-Identifier: BSD-3-Clause
// Writes numbered, checksummed blocks to /dev/vda and reads them back.
//
// Block 0 is the header: magic, sequence of the last block written, number
// of blocks of the disk, CRC. Block S of the run lies at 1 + (S - 1) mod
// (blocks - 1): magic, S, 4076 bytes made from S, CRC. Little endian.
// disk-check verifies the same from the host.
#include "work.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#define HEADER_MAGIC 0x44414548504d4b44u // "DKMPHEAD"
#define BLOCK_MAGIC 0x4b434c42504d4b44u  // "DKMPBLCK"

enum {
    BLOCK_BYTES = 4096,
    CRC_AT = BLOCK_BYTES - 4,
    BLOCKS_MIN = 16,
    READ_BACK = 4, // blocks read for each one written
    DEVICE_WAIT_MS = 5000,
    WRONG_SHOWN = 16,
};

static struct {
    int fd;
    uint64_t interval_us;
    uint64_t blocks;
    unsigned char *buffer, *expected; // aligned for O_DIRECT
    pthread_t thread;
    atomic_bool stop;
    bool started;
    _Atomic uint64_t sequence, wrong;
} disk;

static void fill(unsigned char *block, uint64_t magic, uint64_t sequence,
                 uint64_t salt)
{
    uint64_t word = salt * 0x9e3779b97f4a7c15u;
    uint32_t crc;

    memcpy(block, &magic, 8);
    memcpy(block + 8, &sequence, 8);
    for (unsigned at = 16; at < CRC_AT; at += 4) {
        word = word * 6364136223846793005u + 1442695040888963407u;
        memcpy(block + at, (char *)&word + 4, 4);
    }
    if (magic == HEADER_MAGIC)
        memcpy(block + 16, &disk.blocks, 8);
    crc = crc32_of(block, CRC_AT);
    memcpy(block + CRC_AT, &crc, 4);
}

static uint64_t place_bytes(uint64_t sequence)
{
    return (1 + (sequence - 1) % (disk.blocks - 1)) * BLOCK_BYTES;
}

static void write_block(uint64_t at_bytes)
{
    if (pwrite(disk.fd, disk.buffer, BLOCK_BYTES, at_bytes) != BLOCK_BYTES)
        die("what=disk-write at=%llu", (unsigned long long)at_bytes);
}

static void read_back(uint64_t sequence)
{
    uint64_t at_bytes = place_bytes(sequence);

    if (pread(disk.fd, disk.buffer, BLOCK_BYTES, at_bytes) != BLOCK_BYTES)
        die("what=disk-read at=%llu", (unsigned long long)at_bytes);
    fill(disk.expected, BLOCK_MAGIC, sequence, sequence);
    if (!memcmp(disk.buffer, disk.expected, BLOCK_BYTES))
        return;
    if (atomic_fetch_add(&disk.wrong, 1) < WRONG_SHOWN)
        say("disk-wrong at=%llu sequence=%llu", (unsigned long long)at_bytes,
            (unsigned long long)sequence);
}

static void write_next(void)
{
    uint64_t sequence = atomic_load(&disk.sequence) + 1;
    uint64_t oldest =
        sequence < disk.blocks ? 1 : sequence - (disk.blocks - 1) + 1;

    fill(disk.buffer, BLOCK_MAGIC, sequence, sequence);
    write_block(place_bytes(sequence));
    fill(disk.buffer, HEADER_MAGIC, sequence, 0);
    write_block(0);
    atomic_store(&disk.sequence, sequence);
    read_back(sequence);
    for (unsigned i = 1; i < READ_BACK; i++)
        read_back(oldest + sequence * 7919 * i % (sequence - oldest + 1));
}

static void *work(void *arg)
{
    uint64_t next_us = now_us();

    (void)arg;
    while (!atomic_load(&disk.stop)) {
        write_next();
        next_us += disk.interval_us;
        if (next_us < now_us())
            next_us = now_us();
        sleep_until_us(next_us);
    }
    return NULL;
}

// The device may appear a little after its driver was loaded.
static int open_device(void)
{
    for (unsigned i = 0; i < DEVICE_WAIT_MS / 10; i++) {
        int fd = open("/dev/vda", O_RDWR | O_DIRECT | O_SYNC | O_CLOEXEC);

        if (fd >= 0)
            return fd;
        sleep_until_us(now_us() + 10000);
    }
    die("what=open path=/dev/vda");
}

void disk_start(const struct work_options *options)
{
    uint64_t size_bytes;

    if (!options->disk_interval_ms)
        return;
    disk.fd = open_device();
    if (ioctl(disk.fd, BLKGETSIZE64, &size_bytes))
        die("what=disk-size");
    disk.interval_us = options->disk_interval_ms * 1000;
    disk.blocks = size_bytes / BLOCK_BYTES;
    if (disk.blocks < BLOCKS_MIN)
        die("what=disk-too-small blocks=%llu min=%d",
            (unsigned long long)disk.blocks, BLOCKS_MIN);
    if (posix_memalign((void **)&disk.buffer, BLOCK_BYTES, BLOCK_BYTES) ||
        posix_memalign((void **)&disk.expected, BLOCK_BYTES, BLOCK_BYTES))
        die("what=memory");
    if (pthread_create(&disk.thread, NULL, work, NULL))
        die("what=pthread_create thread=disk");
    disk.started = true;
}

void disk_stop(void)
{
    if (!disk.started)
        return;
    atomic_store(&disk.stop, true);
    pthread_join(disk.thread, NULL);
}

uint64_t disk_sequence(void)
{
    return atomic_load(&disk.sequence);
}

uint64_t disk_wrong(void)
{
    return atomic_load(&disk.wrong);
}
