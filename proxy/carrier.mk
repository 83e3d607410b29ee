# SPDX-License-Identifier: BSD-3-Clause
libmpproxy_la_SOURCES += \
	proxy/carrier.c proxy/carrier.h \
	proxy/carrier-core.c proxy/carrier-core.h \
	proxy/carrier-dest.c \
	proxy/carrier-ends.c \
	proxy/carrier-lanes.c \
	proxy/carrier-rate.c proxy/carrier-rate.h \
	proxy/carrier-source.c \
	proxy/carrier-stats.c \
	proxy/endpoint.c proxy/endpoint.h \
	$(NULL)
