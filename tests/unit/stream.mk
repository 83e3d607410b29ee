# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
	tests/data/record-stream \
	tests/data/stream \
	tests/fuzz/corpus/stream-head \
	tests/fuzz/corpus/stream-pages \
	tests/fuzz/corpus/stream-return-path \
	$(NULL)

# The fuzzers' entries, replayed over the recordings and the corpus. To search
# for more: clang -fsanitize=fuzzer,address -I. tests/fuzz/fuzz-X.c stream/*.c
stream_replays = \
	tests/fuzz/fuzz-stream-head.t \
	tests/fuzz/fuzz-stream-pages.t \
	tests/fuzz/fuzz-stream-return-path.t \
	tests/fuzz/fuzz-widen.t \
	$(NULL)
check_PROGRAMS += $(stream_replays)
TESTS += $(stream_replays)

tests_fuzz_fuzz_stream_head_t_SOURCES = tests/fuzz/fuzz-stream-head.c \
	tests/fuzz/replay.c
tests_fuzz_fuzz_stream_head_t_CPPFLAGS = $(AM_CPPFLAGS) \
	-DREPLAY_DIRECTORIES='"tests/data/stream","tests/fuzz/corpus/stream-head"'
tests_fuzz_fuzz_stream_head_t_LDADD = libmpstream.la

tests_fuzz_fuzz_stream_pages_t_SOURCES = tests/fuzz/fuzz-stream-pages.c \
	tests/fuzz/replay.c
tests_fuzz_fuzz_stream_pages_t_CPPFLAGS = $(AM_CPPFLAGS) \
	-DREPLAY_DIRECTORIES='"tests/fuzz/corpus/stream-pages"'
tests_fuzz_fuzz_stream_pages_t_LDADD = libmpstream.la libmputil.la

tests_fuzz_fuzz_stream_return_path_t_SOURCES = tests/fuzz/fuzz-stream-return-path.c \
	tests/fuzz/replay.c
tests_fuzz_fuzz_stream_return_path_t_CPPFLAGS = $(AM_CPPFLAGS) \
	-DREPLAY_DIRECTORIES='"tests/data/stream","tests/fuzz/corpus/stream-return-path"'
tests_fuzz_fuzz_stream_return_path_t_LDADD = libmpstream.la

# what widens is a return path, too
tests_fuzz_fuzz_widen_t_SOURCES = tests/fuzz/fuzz-widen.c tests/fuzz/replay.c
tests_fuzz_fuzz_widen_t_CPPFLAGS = $(AM_CPPFLAGS) \
	-DREPLAY_DIRECTORIES='"tests/data/stream","tests/fuzz/corpus/stream-return-path"'
tests_fuzz_fuzz_widen_t_LDADD = libmpstream.la libmputil.la

# stream-replay is run by tests/e2e/test_capture.py on what it records
check_PROGRAMS += tests/unit/stream-replay
tests_unit_stream_replay_SOURCES = tests/unit/stream-replay.c
tests_unit_stream_replay_LDADD = libmpstream.la libmputil.la

if HAVE_CMOCKA
stream_tests = \
	tests/unit/test-pages.t \
	tests/unit/test-pages-random.t \
	tests/unit/test-pool.t \
	tests/unit/test-small-pages.t \
	tests/unit/test-stream-head.t \
	tests/unit/test-stream-head-parts.t \
	tests/unit/test-stream-return-path.t \
	tests/unit/test-widen.t \
	$(NULL)
check_PROGRAMS += $(stream_tests)
TESTS += $(stream_tests)
stream_ldadd = libmpstream.la $(CMOCKA_LIBS)

ram_stream = tests/lib/ram-stream.c tests/lib/ram-stream.h
tests_unit_test_pages_t_SOURCES = tests/unit/test-pages.c $(ram_stream)
tests_unit_test_pages_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_pages_t_LDADD = $(stream_ldadd) libmputil.la

tests_unit_test_pages_random_t_SOURCES = tests/unit/test-pages-random.c \
	$(ram_stream)
tests_unit_test_pages_random_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_pages_random_t_LDADD = $(stream_ldadd) libmputil.la

tests_unit_test_pool_t_SOURCES = tests/unit/test-pool.c
tests_unit_test_pool_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_pool_t_LDADD = $(stream_ldadd)

tests_unit_test_small_pages_t_SOURCES = tests/unit/test-small-pages.c \
	tests/unit/test-stream-input.h
tests_unit_test_small_pages_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_small_pages_t_LDADD = libmpstream.la libmputil.la $(CMOCKA_LIBS)

tests_unit_test_widen_t_SOURCES = tests/unit/test-widen.c \
	tests/unit/test-stream-input.h
tests_unit_test_widen_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_widen_t_LDADD = libmpstream.la libmputil.la $(CMOCKA_LIBS)

tests_unit_test_stream_head_t_SOURCES = tests/unit/test-stream-head.c \
	tests/unit/test-stream-input.h
tests_unit_test_stream_head_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_stream_head_t_LDADD = $(stream_ldadd)

tests_unit_test_stream_head_parts_t_SOURCES = tests/unit/test-stream-head-parts.c \
	tests/unit/test-stream-input.h
tests_unit_test_stream_head_parts_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_stream_head_parts_t_LDADD = $(stream_ldadd)

tests_unit_test_stream_return_path_t_SOURCES = tests/unit/test-stream-return-path.c \
	tests/unit/test-stream-input.h
tests_unit_test_stream_return_path_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_stream_return_path_t_LDADD = $(stream_ldadd)
endif
