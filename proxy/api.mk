# SPDX-License-Identifier: BSD-3-Clause
libmpproxy_la_SOURCES += \
	proxy/api.c proxy/api.h \
	proxy/api-events.c proxy/api-events.h \
	proxy/api-http.c proxy/api-http.h \
	proxy/api-json.c proxy/api-json.h \
	proxy/api-member.c proxy/api-member.h \
	proxy/api-migrate.c proxy/api-migrate.h \
	proxy/api-order.c proxy/api-order.h \
	proxy/api-reply.c proxy/api-reply.h \
	proxy/api-route.c proxy/api-route.h \
	proxy/api-server.c proxy/api-server.h \
	$(NULL)
