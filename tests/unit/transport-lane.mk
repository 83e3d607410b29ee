# SPDX-License-Identifier: BSD-3-Clause
if HAVE_CMOCKA
transport_lane_tests = \
	tests/unit/test-hello.t \
	tests/unit/test-lane.t \
	tests/unit/test-lane-ends.t \
	tests/unit/test-lane-refusals.t \
	tests/unit/test-tls.t \
	$(NULL)
check_PROGRAMS += $(transport_lane_tests)
TESTS += $(transport_lane_tests)
transport_lane_ldadd = libmptransport.la libmputil.la $(SSL_LIBS) \
	$(EVENT_LIBS) $(CMOCKA_LIBS)
tests_unit_test_hello_t_SOURCES = tests/unit/test-hello.c
tests_unit_test_hello_t_LDADD = $(transport_lane_ldadd)
tests_unit_test_lane_t_SOURCES = tests/unit/test-lane.c \
	tests/lib/lane-rig.c tests/lib/lane-rig.h \
	tests/lib/lanes.c tests/lib/lanes.h tests/lib/pki.c tests/lib/pki.h
tests_unit_test_lane_t_LDADD = $(transport_lane_ldadd)
tests_unit_test_lane_ends_t_SOURCES = tests/unit/test-lane-ends.c \
	tests/lib/lane-rig.c tests/lib/lane-rig.h \
	tests/lib/lanes.c tests/lib/lanes.h tests/lib/pki.c tests/lib/pki.h
tests_unit_test_lane_ends_t_LDADD = $(transport_lane_ldadd)
tests_unit_test_lane_refusals_t_SOURCES = tests/unit/test-lane-refusals.c \
	tests/lib/lanes.c tests/lib/lanes.h tests/lib/pki.c tests/lib/pki.h
tests_unit_test_lane_refusals_t_LDADD = $(transport_lane_ldadd) -lpthread
tests_unit_test_tls_t_SOURCES = tests/unit/test-tls.c \
	tests/lib/pki.c tests/lib/pki.h
tests_unit_test_tls_t_LDADD = $(transport_lane_ldadd)
endif
# Built by hand: make tests/bench/bench-lane
EXTRA_PROGRAMS += tests/bench/bench-lane
tests_bench_bench_lane_SOURCES = tests/bench/bench-lane.c \
	tests/lib/lanes.c tests/lib/lanes.h tests/lib/pki.c tests/lib/pki.h
tests_bench_bench_lane_LDADD = libmptransport.la libmputil.la $(SSL_LIBS) \
	$(EVENT_LIBS)
EXTRA_DIST += tests/fuzz/fuzz-hello.c
