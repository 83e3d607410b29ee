# SPDX-License-Identifier: BSD-3-Clause
if HAVE_CMOCKA
util_tests = \
	%D%/test-error.t \
	%D%/test-list.t \
	%D%/test-loop.t \
	%D%/test-parse.t \
	%D%/test-path.t \
	%D%/test-sock.t \
	$(NULL)
check_PROGRAMS += $(util_tests)
TESTS += $(util_tests)

tests_unit_test_error_t_SOURCES = %D%/test-error.c
tests_unit_test_error_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_error_t_LDADD = libmputil.la $(CMOCKA_LIBS)

tests_unit_test_list_t_SOURCES = %D%/test-list.c
tests_unit_test_list_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_list_t_LDADD = libmputil.la $(CMOCKA_LIBS)

tests_unit_test_loop_t_SOURCES = %D%/test-loop.c
tests_unit_test_loop_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_loop_t_LDADD = libmputil.la $(CMOCKA_LIBS)

tests_unit_test_parse_t_SOURCES = %D%/test-parse.c
tests_unit_test_parse_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_parse_t_LDADD = libmputil.la $(CMOCKA_LIBS)

tests_unit_test_path_t_SOURCES = %D%/test-path.c
tests_unit_test_path_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_path_t_LDADD = libmputil.la $(CMOCKA_LIBS)

tests_unit_test_sock_t_SOURCES = %D%/test-sock.c
tests_unit_test_sock_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_sock_t_LDADD = libmputil.la $(CMOCKA_LIBS)
endif
