# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libmpconf.la
libmpconf_la_SOURCES = \
	%D%/conf.c %D%/conf.h \
	%D%/ini.c %D%/ini.h \
	%D%/options.c %D%/options.h \
	%D%/sample.c \
	%D%/value.c %D%/value.h \
	$(NULL)
libmpconf_la_LIBADD = libmputil.la

EXTRA_DIST += contrib/migproxy.conf.sample contrib/migproxy.service

# The sample comes from the option table; a test holds the file to it.
check_PROGRAMS += %D%/print-sample
conf_print_sample_SOURCES = %D%/print-sample.c
conf_print_sample_LDADD = libmpconf.la

update-sample: %D%/print-sample
	$(MKDIR_P) $(srcdir)/contrib
	%D%/print-sample >$(srcdir)/contrib/migproxy.conf.sample
.PHONY: update-sample
