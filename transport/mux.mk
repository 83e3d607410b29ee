# SPDX-License-Identifier: BSD-3-Clause
libmptransport_la_SOURCES += \
	transport/chunk.c transport/chunk.h \
	transport/frame.c transport/frame.h \
	transport/mux.h \
	$(NULL)
