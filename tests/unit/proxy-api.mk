# SPDX-License-Identifier: BSD-3-Clause
if HAVE_CMOCKA
proxy_api_tests = \
	tests/unit/test-api.t \
	tests/unit/test-api-conn.t \
	tests/unit/test-api-docs.t \
	tests/unit/test-api-events.t \
	tests/unit/test-api-migrate.t \
	tests/unit/test-api-order.t \
	tests/unit/test-api-parse.t \
	$(NULL)
check_PROGRAMS += $(proxy_api_tests)
TESTS += $(proxy_api_tests)

proxy_api_cppflags = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
proxy_api_ldadd = libmpproxy.la libmputil.la $(EVENT_LIBS) $(JSON_LIBS) \
	$(CMOCKA_LIBS)
proxy_api_fixture = tests/unit/api-fixture.c tests/unit/api-fixture.h

tests_unit_test_api_t_SOURCES = tests/unit/test-api.c $(proxy_api_fixture)
tests_unit_test_api_t_CPPFLAGS = $(proxy_api_cppflags)
tests_unit_test_api_t_LDADD = $(proxy_api_ldadd)

tests_unit_test_api_conn_t_SOURCES = tests/unit/test-api-conn.c \
	$(proxy_api_fixture)
tests_unit_test_api_conn_t_CPPFLAGS = $(proxy_api_cppflags)
tests_unit_test_api_conn_t_LDADD = $(proxy_api_ldadd)

tests_unit_test_api_events_t_SOURCES = tests/unit/test-api-events.c \
	$(proxy_api_fixture)
tests_unit_test_api_events_t_CPPFLAGS = $(proxy_api_cppflags)
tests_unit_test_api_events_t_LDADD = $(proxy_api_ldadd)

tests_unit_test_api_order_t_SOURCES = tests/unit/test-api-order.c
tests_unit_test_api_order_t_CPPFLAGS = $(proxy_api_cppflags)
tests_unit_test_api_order_t_LDADD = $(proxy_api_ldadd)

tests_unit_test_api_docs_t_SOURCES = tests/unit/test-api-docs.c
tests_unit_test_api_docs_t_CPPFLAGS = $(proxy_api_cppflags)
tests_unit_test_api_docs_t_LDADD = $(proxy_api_ldadd)

tests_unit_test_api_migrate_t_SOURCES = tests/unit/test-api-migrate.c
tests_unit_test_api_migrate_t_CPPFLAGS = $(proxy_api_cppflags)
tests_unit_test_api_migrate_t_LDADD = $(proxy_api_ldadd)

tests_unit_test_api_parse_t_SOURCES = tests/unit/test-api-parse.c
tests_unit_test_api_parse_t_CPPFLAGS = $(proxy_api_cppflags)
tests_unit_test_api_parse_t_LDADD = $(proxy_api_ldadd)
endif
