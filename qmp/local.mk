# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libmpqmp.la
libmpqmp_la_SOURCES = \
	%D%/json-stream.c %D%/json-stream.h \
	%D%/json-value.c %D%/json-value.h \
	%D%/qmp.c %D%/qmp.h %D%/qmp-internal.h \
	%D%/qmp-call.c %D%/qmp-wire.c \
	%D%/qmp-caps.c %D%/qmp-caps.h %D%/qmp-caps-internal.h \
	%D%/qmp-caps-apply.c %D%/qmp-caps-plan.c \
	%D%/qmp-migrate.c %D%/qmp-migrate.h %D%/qmp-migrate-parse.c \
	%D%/qmp-probe.c %D%/qmp-probe.h \
	%D%/utf8.h \
	$(NULL)
libmpqmp_la_LIBADD = libmputil.la $(JSON_LIBS) -lm
