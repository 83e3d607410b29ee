# SPDX-License-Identifier: BSD-3-Clause
libmptransport_la_SOURCES += \
	transport/hello.c transport/hello.h \
	transport/lane.h \
	transport/tls.h \
	$(NULL)
