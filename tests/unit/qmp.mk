# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += tests/lib/libfakeqemu.la
tests_lib_libfakeqemu_la_SOURCES = \
	tests/lib/fake-qemu.c tests/lib/fake-qemu.h \
	$(NULL)
tests_lib_libfakeqemu_la_LIBADD = libmpqmp.la

if HAVE_CMOCKA
qmp_tests = \
	tests/unit/test-json-stream.t \
	tests/unit/test-qmp.t \
	tests/unit/test-qmp-caps.t \
	tests/unit/test-qmp-end.t \
	tests/unit/test-qmp-probe.t \
	$(NULL)
# qmp-real is run by test-qmp-real.sh
check_PROGRAMS += $(qmp_tests) tests/unit/qmp-real
TESTS += $(qmp_tests) tests/unit/test-qmp-real.sh
qmp_ldadd = tests/lib/libfakeqemu.la libmpqmp.la libmputil.la $(JSON_LIBS) \
	$(EVENT_LIBS) $(CMOCKA_LIBS)

tests_unit_test_json_stream_t_SOURCES = tests/unit/test-json-stream.c
tests_unit_test_json_stream_t_LDADD = $(qmp_ldadd)

qmp_diary = tests/lib/qmp-diary.c tests/lib/qmp-diary.h
tests_unit_test_qmp_t_SOURCES = tests/unit/test-qmp.c $(qmp_diary)
tests_unit_test_qmp_t_LDADD = $(qmp_ldadd)

tests_unit_test_qmp_caps_t_SOURCES = tests/unit/test-qmp-caps.c
tests_unit_test_qmp_caps_t_LDADD = $(qmp_ldadd)

tests_unit_test_qmp_end_t_SOURCES = tests/unit/test-qmp-end.c $(qmp_diary)
tests_unit_test_qmp_end_t_LDADD = $(qmp_ldadd)

tests_unit_test_qmp_probe_t_SOURCES = tests/unit/test-qmp-probe.c
tests_unit_test_qmp_probe_t_LDADD = $(qmp_ldadd)

tests_unit_qmp_real_SOURCES = tests/unit/qmp-real.c \
	tests/lib/qmp-schema.c tests/lib/qmp-schema.h
tests_unit_qmp_real_LDADD = $(qmp_ldadd)
endif
dist_check_SCRIPTS += tests/unit/test-qmp-real.sh
EXTRA_DIST += tests/fuzz/fuzz-json.c
