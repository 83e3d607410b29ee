# SPDX-License-Identifier: BSD-3-Clause
libmptransport_la_SOURCES += \
	transport/hello.c transport/hello.h \
	transport/io-tls.c transport/io-tls.h \
	transport/io-tls-text.c transport/io-tls-text.h \
	transport/lane.c transport/lane-open.c transport/lane-receive.c transport/lane-send.c \
	transport/lane.h transport/lane-priv.h \
	transport/tls.c transport/tls-names.c transport/tls.h \
	$(NULL)
