# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
	tests/fuzz/corpus/frame \
	tests/fuzz/corpus/mux \
	$(NULL)

# The fuzzers' entries, replayed over the corpus. To search for more:
# clang -fsanitize=fuzzer,address -I. tests/fuzz/fuzz-mux.c transport/mux*.c ...
transport_mux_replays = \
	tests/fuzz/fuzz-frame.t \
	tests/fuzz/fuzz-mux.t \
	$(NULL)
check_PROGRAMS += $(transport_mux_replays)
TESTS += $(transport_mux_replays)
tests_fuzz_fuzz_frame_t_SOURCES = tests/fuzz/fuzz-frame.c tests/fuzz/replay.c
tests_fuzz_fuzz_frame_t_CPPFLAGS = $(AM_CPPFLAGS) \
	-DREPLAY_DIRECTORIES='"tests/fuzz/corpus/frame"'
tests_fuzz_fuzz_frame_t_LDADD = libmptransport.la libmputil.la
tests_fuzz_fuzz_mux_t_SOURCES = tests/fuzz/fuzz-mux.c tests/fuzz/replay.c
tests_fuzz_fuzz_mux_t_CPPFLAGS = $(AM_CPPFLAGS) \
	-DREPLAY_DIRECTORIES='"tests/fuzz/corpus/mux"'
tests_fuzz_fuzz_mux_t_LDADD = libmptransport.la libmputil.la

if HAVE_CMOCKA
transport_mux_tests = \
	tests/unit/test-chunk.t \
	tests/unit/test-flow.t \
	tests/unit/test-frame.t \
	tests/unit/test-merge.t \
	tests/unit/test-mux.t \
	tests/unit/test-mux-memory.t \
	tests/unit/test-mux-peer.t \
	tests/unit/test-mux-random.t \
	tests/unit/test-mux-share.t \
	tests/unit/test-protocol.t \
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
tests_unit_test_mux_t_SOURCES = tests/unit/test-mux.c \
	$(muxpair_sources)
tests_unit_test_mux_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_memory_t_SOURCES = tests/unit/test-mux-memory.c
tests_unit_test_mux_memory_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_memory_t_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc -Wl,--wrap=calloc -Wl,--wrap=realloc
tests_unit_test_mux_peer_t_SOURCES = tests/unit/test-mux-peer.c
tests_unit_test_mux_peer_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_random_t_SOURCES = tests/unit/test-mux-random.c $(memlink_sources)
tests_unit_test_mux_random_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_mux_share_t_SOURCES = tests/unit/test-mux-share.c \
	$(muxpair_sources)
tests_unit_test_mux_share_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_protocol_t_SOURCES = tests/unit/test-protocol.c
tests_unit_test_protocol_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_sched_t_SOURCES = tests/unit/test-sched.c $(memlink_sources)
tests_unit_test_sched_t_LDADD = $(transport_mux_ldadd)
tests_unit_test_window_t_SOURCES = tests/unit/test-window.c
tests_unit_test_window_t_LDADD = $(transport_mux_ldadd)
endif

# Nanoseconds for each frame; not a test.
EXTRA_PROGRAMS += tests/unit/bench-mux
tests_unit_bench_mux_SOURCES = tests/unit/bench-mux.c
tests_unit_bench_mux_LDADD = libmptransport.la libmputil.la
