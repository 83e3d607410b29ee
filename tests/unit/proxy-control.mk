# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += tests/lib/libworld.la
tests_lib_libworld_la_SOURCES = \
	tests/lib/faults.c tests/lib/faults.h \
	tests/lib/model-qemu.c tests/lib/model-qemu.h \
	tests/lib/model-qemu-caps.c \
	tests/lib/model-qemu-private.h \
	tests/lib/model-qemu-stream.c \
	tests/lib/relay.c tests/lib/relay.h \
	tests/lib/world.c tests/lib/world.h \
	tests/lib/world-verdict.c \
	$(NULL)

if HAVE_CMOCKA
proxy_control_tests = \
	tests/unit/test-advice.t \
	tests/unit/test-conf-check.t \
	tests/unit/test-destination.t \
	tests/unit/test-disturbed.t \
	tests/unit/test-facts.t \
	tests/unit/test-metrics.t \
	tests/unit/test-migration-json.t \
	tests/unit/test-migration-state.t \
	tests/unit/test-peer.t \
	tests/unit/test-policy.t \
	tests/unit/test-report.t \
	tests/unit/test-source.t \
	tests/unit/test-store.t \
	tests/unit/test-story.t \
	$(NULL)
check_PROGRAMS += $(proxy_control_tests)
TESTS += $(proxy_control_tests)

proxy_control_cppflags = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
proxy_control_ldadd = tests/lib/libfakeqemu.la libmpproxy.la libmpconf.la \
	libmpqmp.la libmptransport.la libmputil.la $(SSL_LIBS) $(EVENT_LIBS) \
	$(JSON_LIBS) $(CMOCKA_LIBS)
proxy_world_ldadd = tests/lib/libworld.la $(proxy_control_ldadd)
proxy_world_pki = tests/lib/pki.c tests/lib/pki.h

tests_unit_test_advice_t_SOURCES = tests/unit/test-advice.c
tests_unit_test_advice_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_advice_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_conf_check_t_SOURCES = tests/unit/test-conf-check.c
tests_unit_test_conf_check_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_conf_check_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_destination_t_SOURCES = tests/unit/test-destination.c \
	$(proxy_world_pki)
tests_unit_test_destination_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_destination_t_LDADD = $(proxy_world_ldadd)

tests_unit_test_disturbed_t_SOURCES = tests/unit/test-disturbed.c \
	$(proxy_world_pki)
tests_unit_test_disturbed_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_disturbed_t_LDADD = $(proxy_world_ldadd)

tests_unit_test_metrics_t_SOURCES = tests/unit/test-metrics.c
tests_unit_test_metrics_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_metrics_t_LDADD = $(proxy_control_ldadd)
tests_unit_test_facts_t_SOURCES = tests/unit/test-facts.c
tests_unit_test_facts_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_facts_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_migration_json_t_SOURCES = tests/unit/test-migration-json.c
tests_unit_test_migration_json_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_migration_json_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_migration_state_t_SOURCES = tests/unit/test-migration-state.c
tests_unit_test_migration_state_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_migration_state_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_peer_t_SOURCES = tests/unit/test-peer.c $(proxy_world_pki)
tests_unit_test_peer_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_peer_t_LDADD = $(proxy_world_ldadd)

tests_unit_test_policy_t_SOURCES = tests/unit/test-policy.c
tests_unit_test_policy_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_policy_t_LDADD = $(proxy_control_ldadd)

tests_unit_test_report_t_SOURCES = tests/unit/test-report.c $(proxy_world_pki)
tests_unit_test_report_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_report_t_LDADD = $(proxy_world_ldadd)

tests_unit_test_source_t_SOURCES = tests/unit/test-source.c $(proxy_world_pki)
tests_unit_test_source_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_source_t_LDADD = $(proxy_world_ldadd)

tests_unit_test_story_t_SOURCES = tests/unit/test-story.c $(proxy_world_pki)
tests_unit_test_story_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_story_t_LDADD = $(proxy_world_ldadd)

tests_unit_test_store_t_SOURCES = tests/unit/test-store.c
tests_unit_test_store_t_CPPFLAGS = $(proxy_control_cppflags)
tests_unit_test_store_t_LDADD = $(proxy_control_ldadd)
endif
