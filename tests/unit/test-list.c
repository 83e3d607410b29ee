// SPDX-License-Identifier: BSD-3-Clause
/* The intrusive list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/list.h"

struct item {
    int value;
    struct list node;
};

/* The values of a list as decimal digits of one number. */
static int digits(const struct list *head)
{
    int all = 0;
    LIST_EACH (node, head) {
        all = all * 10 + container_of(node, struct item, node)->value;
    }
    return all;
}

static void nodes_keep_their_order(void **state)
{
    struct list head;
    struct item a = {.value = 1}, b = {.value = 2}, c = {.value = 3},
                d = {.value = 4};

    list_init(&head);
    assert_true(list_is_empty(&head));
    assert_null(list_first(&head));
    list_append(&head, &b.node);
    list_append(&head, &c.node);
    list_prepend(&head, &a.node);
    list_insert_before(&c.node, &d.node);
    assert_int_equal(digits(&head), 1243);
    assert_ptr_equal(list_first(&head), &a.node);
    assert_false(list_is_empty(&head));
}

static void removing_twice_is_harmless(void **state)
{
    struct list head;
    struct item a = {.value = 1}, b = {.value = 2}, c = {.value = 3};

    list_init(&head);
    list_append(&head, &a.node);
    list_append(&head, &b.node);
    list_append(&head, &c.node);
    list_remove(&b.node);
    assert_int_equal(digits(&head), 13);
    list_remove(&b.node);
    assert_int_equal(digits(&head), 13);
    assert_true(list_is_empty(&b.node));
    list_remove(&a.node);
    list_remove(&c.node);
    assert_true(list_is_empty(&head));
}

static void the_safe_walk_lets_go_of_nodes(void **state)
{
    struct list head;
    int seen = 0;

    list_init(&head);
    for (int i = 1; i <= 4; i++) {
        struct item *item = malloc(sizeof(*item));
        assert_non_null(item);
        item->value = i;
        list_append(&head, &item->node);
    }
    LIST_EACH_SAFE (node, &head) {
        struct item *item = container_of(node, struct item, node);
        seen = seen * 10 + item->value;
        list_remove(node);
        free(item);
    }
    assert_int_equal(seen, 1234);
    assert_true(list_is_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_keep_their_order),
        cmocka_unit_test(removing_twice_is_harmless),
        cmocka_unit_test(the_safe_walk_lets_go_of_nodes),
    };
    return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
