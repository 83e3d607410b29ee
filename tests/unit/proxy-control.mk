# SPDX-License-Identifier: BSD-3-Clause
if HAVE_CMOCKA
proxy_control_tests = \
	tests/unit/test-facts.t \
	tests/unit/test-migration-json.t \
	tests/unit/test-migration-state.t \
	tests/unit/test-policy.t \
	tests/unit/test-store.t \
	$(NULL)
check_PROGRAMS += $(proxy_control_tests)
TESTS += $(proxy_control_tests)

proxy_control_cppflags = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
proxy_control_ldadd = tests/lib/libfakeqemu.la libmpproxy.la libmpconf.la \
	libmpqmp.la libmptransport.la libmputil.la $(SSL_LIBS) $(EVENT_LIBS) \
	$(JSON_LIBS) $(CMOCKA_LIBS)

tests_unit_test_facts_t_SOURCES = tests/unit/test-facts.c
tests_unit_test_facts_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_facts_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_migration_json_t_SOURCES = tests/unit/test-migration-json.c
tests_unit_test_migration_json_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_migration_json_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_migration_state_t_SOURCES = tests/unit/test-migration-state.c
tests_unit_test_migration_state_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_migration_state_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_policy_t_SOURCES = tests/unit/test-policy.c
tests_unit_test_policy_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_policy_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_store_t_SOURCES = tests/unit/test-store.c
tests_unit_test_store_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_store_t_LDADD = $(proxy_control_ldadd)
endif
