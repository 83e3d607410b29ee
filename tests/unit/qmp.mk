# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += tests/lib/libfakeqemu.la
tests_lib_libfakeqemu_la_SOURCES = tests/lib/fake-qemu.c tests/lib/fake-qemu.h
tests_lib_libfakeqemu_la_LIBADD = libmpqmp.la

if HAVE_CMOCKA
qmp_tests = \
	tests/unit/test-json-stream.t \
	tests/unit/test-qmp.t \
	$(NULL)
check_PROGRAMS += $(qmp_tests)
TESTS += $(qmp_tests)
qmp_ldadd = tests/lib/libfakeqemu.la libmpqmp.la libmputil.la $(JSON_LIBS) \
	$(EVENT_LIBS) $(CMOCKA_LIBS)

tests_unit_test_json_stream_t_SOURCES = tests/unit/test-json-stream.c
tests_unit_test_json_stream_t_LDADD = $(qmp_ldadd)

tests_unit_test_qmp_t_SOURCES = tests/unit/test-qmp.c
tests_unit_test_qmp_t_LDADD = $(qmp_ldadd)
endif
