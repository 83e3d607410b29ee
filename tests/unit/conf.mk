# SPDX-License-Identifier: BSD-3-Clause
if HAVE_CMOCKA
conf_tests = \
	%D%/test-conf.t \
	%D%/test-ini.t \
	%D%/test-options.t \
	$(NULL)
check_PROGRAMS += $(conf_tests)
TESTS += $(conf_tests)

tests_unit_test_conf_t_SOURCES = %D%/test-conf.c
tests_unit_test_conf_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_conf_t_LDADD = libmpconf.la $(CMOCKA_LIBS)

tests_unit_test_ini_t_SOURCES = %D%/test-ini.c
tests_unit_test_ini_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_ini_t_LDADD = libmpconf.la $(CMOCKA_LIBS)

tests_unit_test_options_t_SOURCES = %D%/test-options.c
tests_unit_test_options_t_CPPFLAGS = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_test_options_t_LDADD = libmpconf.la $(CMOCKA_LIBS)
endif
