# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libmpstream.la
libmpstream_la_SOURCES = \
	%D%/blocks.c %D%/blocks.h \
	%D%/bytes.h \
	%D%/head-config.c %D%/head-parser.h \
	%D%/head.c %D%/head.h \
	%D%/pages.c %D%/pages.h \
	%D%/pool.c %D%/pool.h \
	%D%/records.c %D%/records.h \
	%D%/return-path.c %D%/return-path.h \
	%D%/small-pages.c %D%/small-pages.h \
	%D%/widen.c %D%/widen.h \
	$(NULL)
