# SPDX-License-Identifier: BSD-3-Clause
if HAVE_CMOCKA
transport_mux_tests = \
	tests/unit/test-chunk.t \
	tests/unit/test-flow.t \
	tests/unit/test-frame.t \
	tests/unit/test-merge.t \
	tests/unit/test-mux.t \
	tests/unit/test-mux-peer.t \
	tests/unit/test-mux-random.t \
	tests/unit/test-mux-share.t \
	tests/unit/test-sched.t \
	tests/unit/test-window.t \
	$(NULL)
check_PROGRAMS += $(transport_mux_tests)
TESTS += $(transport_mux_tests)
transport_mux_ldadd = libmptransport.la libmputil.la $(CMOCKA_LIBS)
memlink_sources = tests/lib/memlink.c tests/lib/memlink.h
muxpair_sources = $(memlink_sources) tests/lib/muxpair.c tests/lib/muxpair.h
tests_unit_test_chunk_t_SOURCES = tests/unit/test-chunk.c
tests_unit_test_chunk_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_flow_t_SOURCES = tests/unit/test-flow.c
tests_unit_test_flow_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_frame_t_SOURCES = tests/unit/test-frame.c
tests_unit_test_frame_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_merge_t_SOURCES = tests/unit/test-merge.c $(memlink_sources)
tests_unit_test_merge_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_t_SOURCES = tests/unit/test-mux.c $(muxpair_sources)
tests_unit_test_mux_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_peer_t_SOURCES = tests/unit/test-mux-peer.c
tests_unit_test_mux_peer_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_random_t_SOURCES = tests/unit/test-mux-random.c $(memlink_sources)
tests_unit_test_mux_random_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_share_t_SOURCES = tests/unit/test-mux-share.c $(muxpair_sources)
tests_unit_test_mux_share_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_sched_t_SOURCES = tests/unit/test-sched.c $(memlink_sources)
tests_unit_test_sched_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_window_t_SOURCES = tests/unit/test-window.c
tests_unit_test_window_t_LDADD = $(transport_mux_ldadd)
endif
