# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libmpproxy.la
libmpproxy_la_SOURCES =
libmpproxy_la_LIBADD = libmpstream.la libmptransport.la libmputil.la \
	$(EVENT_LIBS)
include proxy/carrier.mk
include proxy/control.mk
