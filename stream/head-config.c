// SPDX-License-Identifier: BSD-3-Clause
/* The CONFIGURATION record at the head of QEMU's main stream: machine type and
 * subsections. QEMU migration/savevm.c vmstate_configuration. */
#include <string.h>

#include "stream/bytes.h"
#include "stream/head-parser.h"

static void expect_subsection(struct stream_head_parser *p)
{
    p->is_after_configuration = true;
    head_expect(p, 1, head_take_type);
}

static void take_target_page_bits(struct stream_head_parser *p)
{
    uint32_t bits = bytes_get_be32(p->buf);

    if (bits < TARGET_PAGE_BITS_MIN || bits > TARGET_PAGE_BITS_MAX) {
        head_stop(p, "target pages of %u bits are impossible", bits);
        return;
    }
    if (head_set_target_page(p, 1ull << bits)) {
        expect_subsection(p);
    }
}

static void take_uuid(struct stream_head_parser *p)
{
    p->head.has_uuid = true;
    memcpy(p->head.uuid, p->buf, sizeof p->head.uuid);
    expect_subsection(p);
}

static void take_capability_length(struct stream_head_parser *p);

static void expect_capability(struct stream_head_parser *p)
{
    if (p->capabilities_left == 0) {
        expect_subsection(p);
        return;
    }
    p->capabilities_left--;
    head_expect(p, 1, take_capability_length);
}

/* QEMU names here only those that change the stream (savevm.c
 * should_validate_capability()), so an unknown one is not to be skipped. */
static void take_capability(struct stream_head_parser *p)
{
    char name[STREAM_HEAD_NAME_BYTES_MAX + 1];

    if (!head_get_name(p, p->buf + 1, p->buf[0], "capability", name)) {
        return;
    }
    if (strcmp(name, "x-ignore-shared") != 0) {
        head_stop(p,
                  "capability \"%.128s\" changes the stream in an unknown way",
                  name);
        return;
    }
    p->head.ignore_shared = true;
    expect_capability(p);
}

static void take_capability_length(struct stream_head_parser *p)
{
    if (p->buf[0] == 0) {
        head_stop(p, "a capability has no name");
        return;
    }
    p->need += p->buf[0];
    p->take = take_capability;
}

static void take_capabilities_count(struct stream_head_parser *p)
{
    uint32_t count = bytes_get_be32(p->buf);

    if (count > STREAM_HEAD_CAPABILITIES_MAX) {
        head_stop(p, "%u capabilities, more than %d", count,
                  STREAM_HEAD_CAPABILITIES_MAX);
        return;
    }
    p->capabilities_left = count;
    expect_capability(p);
}

static const struct {
    const char *name;
    uint32_t version;
    size_t need;
    take_fn take;
} subsections[] = {
    {"configuration/target-page-bits", 1, 4, take_target_page_bits},
    {"configuration/capabilities", 1, 4, take_capabilities_count},
    {"configuration/uuid", 1, 16, take_uuid},
};

/* u8 length, name, be32 version */
static void take_subsection(struct stream_head_parser *p)
{
    char name[STREAM_HEAD_NAME_BYTES_MAX + 1];
    uint32_t version = bytes_get_be32(p->buf + 1 + p->buf[0]);

    if (!head_get_name(p, p->buf + 1, p->buf[0], "subsection", name)) {
        return;
    }
    for (size_t i = 0; i < sizeof subsections / sizeof *subsections; i++) {
        if (strcmp(name, subsections[i].name) == 0 &&
            version == subsections[i].version) {
            head_expect(p, subsections[i].need, subsections[i].take);
            return;
        }
    }
    head_stop(p,
              "unknown subsection \"%.128s\" (version %u) of the configuration",
              name, version);
}

void head_take_subsection_name_length(struct stream_head_parser *p)
{
    p->need += p->buf[0] + 4u;
    p->take = take_subsection;
}

static void take_machine(struct stream_head_parser *p)
{
    if (head_get_name(p, p->buf, p->have, "machine type", p->head.machine)) {
        expect_subsection(p);
    }
}

void head_take_machine_length(struct stream_head_parser *p)
{
    uint32_t len = bytes_get_be32(p->buf);

    if (len == 0 || len > STREAM_HEAD_NAME_BYTES_MAX) {
        head_stop(p, "the machine type's name has length %u, not 1 to %d", len,
                  STREAM_HEAD_NAME_BYTES_MAX);
        return;
    }
    head_expect(p, len, take_machine);
}
