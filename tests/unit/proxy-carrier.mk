# SPDX-License-Identifier: BSD-3-Clause
if HAVE_CMOCKA
proxy_carrier_tests = \
	tests/unit/test-carrier.t \
	tests/unit/test-carrier-ends.t \
	tests/unit/test-carrier-head.t \
	tests/unit/test-carrier-rate.t \
	tests/unit/test-endpoint.t \
	tests/unit/test-latency.t \
	$(NULL)
check_PROGRAMS += $(proxy_carrier_tests)
TESTS += $(proxy_carrier_tests)
proxy_carrier_ldadd = libmpproxy.la libmpstream.la libmptransport.la \
	libmputil.la $(SSL_LIBS) $(EVENT_LIBS) $(CMOCKA_LIBS)
proxy_carrier_rig = \
	tests/lib/carrier-rig.c tests/lib/carrier-rig.h \
	tests/lib/pki.c tests/lib/pki.h
tests_unit_test_carrier_t_SOURCES = tests/unit/test-carrier.c \
	$(proxy_carrier_rig)
tests_unit_test_carrier_t_LDADD = $(proxy_carrier_ldadd)
tests_unit_test_carrier_ends_t_SOURCES = tests/unit/test-carrier-ends.c \
	$(proxy_carrier_rig)
tests_unit_test_carrier_ends_t_LDADD = $(proxy_carrier_ldadd)
tests_unit_test_carrier_head_t_SOURCES = tests/unit/test-carrier-head.c \
	tests/unit/test-stream-input.h $(proxy_carrier_rig)
tests_unit_test_carrier_head_t_LDADD = $(proxy_carrier_ldadd)
tests_unit_test_carrier_rate_t_SOURCES = tests/unit/test-carrier-rate.c
tests_unit_test_carrier_rate_t_LDADD = $(proxy_carrier_ldadd)
tests_unit_test_latency_t_SOURCES = tests/unit/test-latency.c
tests_unit_test_latency_t_LDADD = $(proxy_carrier_ldadd)
tests_unit_test_endpoint_t_SOURCES = tests/unit/test-endpoint.c
tests_unit_test_endpoint_t_LDADD = $(proxy_carrier_ldadd)
endif

# make tests/bench/bench-carrier && tests/bench/bench-carrier.sh ...
EXTRA_PROGRAMS += tests/bench/bench-carrier
EXTRA_DIST += tests/bench/bench-carrier.sh
tests_bench_bench_carrier_SOURCES = tests/bench/bench-carrier.c
tests_bench_bench_carrier_LDADD = libmpproxy.la libmpstream.la \
	libmptransport.la libmputil.la $(SSL_LIBS) $(EVENT_LIBS)
