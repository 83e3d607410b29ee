# SPDX-License-Identifier: BSD-3-Clause
libmpproxy_la_SOURCES += \
	proxy/carrier.c proxy/carrier.h \
	proxy/carrier-core.c proxy/carrier-core.h \
	proxy/carrier-dest.c \
	proxy/carrier-drain.c \
	proxy/carrier-ends.c \
	proxy/carrier-lanes.c \
	proxy/carrier-pages.c proxy/carrier-pages.h \
	proxy/carrier-pages-stats.h \
	proxy/carrier-rate.c proxy/carrier-rate.h \
	proxy/carrier-source.c \
	proxy/carrier-stats.c \
	proxy/endpoint.c proxy/endpoint.h \
	proxy/latency.c proxy/latency.h \
	$(NULL)
