# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += tests/lib/memlink.c tests/lib/memlink.h
if HAVE_CMOCKA
transport_mux_tests = \
	tests/unit/test-chunk.t \
	tests/unit/test-frame.t \
	tests/unit/test-mux.t \
	$(NULL)
check_PROGRAMS += $(transport_mux_tests)
TESTS += $(transport_mux_tests)
transport_mux_ldadd = libmptransport.la libmputil.la $(CMOCKA_LIBS)
tests_unit_test_chunk_t_SOURCES = tests/unit/test-chunk.c
tests_unit_test_chunk_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_frame_t_SOURCES = tests/unit/test-frame.c
tests_unit_test_frame_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_t_SOURCES = tests/unit/test-mux.c \
	tests/lib/memlink.c tests/lib/memlink.h
tests_unit_test_mux_t_LDADD = $(transport_mux_ldadd)
endif
