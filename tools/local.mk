# SPDX-License-Identifier: BSD-3-Clause
bin_PROGRAMS += migproxyctl
migproxyctl_SOURCES = \
	%D%/ctl.h \
	%D%/ctl-ask.c %D%/ctl-ask.h \
	%D%/ctl-body.c %D%/ctl-body.h \
	%D%/ctl-exit.c %D%/ctl-exit.h \
	%D%/ctl-follow.c %D%/ctl-follow.h \
	%D%/ctl-http.c %D%/ctl-http.h \
	%D%/ctl-http-private.h \
	%D%/ctl-list.c \
	%D%/ctl-migrate.c \
	%D%/ctl-order.c \
	%D%/ctl-output.c %D%/ctl-output.h \
	%D%/ctl-report.c %D%/ctl-report.h \
	%D%/ctl-stream.c \
	%D%/ctl-watch.c \
	%D%/migproxyctl.c \
	$(NULL)
migproxyctl_CPPFLAGS = $(AM_CPPFLAGS) $(CURL_CFLAGS)
migproxyctl_LDADD = libmpqmp.la libmputil.la $(CURL_LIBS) $(JSON_LIBS)

TESTS += tests/unit/test-ctl.sh
dist_check_SCRIPTS += tests/unit/test-ctl.sh
EXTRA_DIST += tests/unit/ctl_fake.py tests/unit/test_ctl.py \
	tests/unit/test_ctl_orders.py
