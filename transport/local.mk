# SPDX-License-Identifier: BSD-3-Clause
noinst_LTLIBRARIES += libmptransport.la
libmptransport_la_SOURCES = %D%/wire.h
libmptransport_la_LIBADD = libmputil.la $(SSL_LIBS)
include transport/mux.mk
include transport/lane.mk
