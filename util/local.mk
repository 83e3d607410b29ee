# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libmputil.la
libmputil_la_SOURCES = \
	%D%/cleanup.h \
	%D%/clock.c %D%/clock.h \
	%D%/error.c %D%/error.h \
	%D%/id.c %D%/id.h \
	%D%/list.h \
	%D%/log.c %D%/log.h \
	%D%/loop.c %D%/loop.h \
	%D%/parse.c %D%/parse.h \
	%D%/path.c %D%/path.h \
	%D%/sd.c %D%/sd.h \
	%D%/sock.c %D%/sock.h \
	$(NULL)
libmputil_la_LIBADD = $(EVENT_LIBS)
