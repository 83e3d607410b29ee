# SPDX-License-Identifier: BSD-3-Clause
# The control side of the daemon, and the daemon itself.
include proxy/api.mk
libmpproxy_la_SOURCES += \
	proxy/advice.c proxy/advice.h \
	proxy/conf-check.c proxy/conf-check.h \
	proxy/daemon.c proxy/daemon.h \
	proxy/destination.c proxy/destination.h \
	proxy/destination-private.h \
	proxy/destination-run.c \
	proxy/destination-setup.c \
	proxy/destination-undo.c \
	proxy/error-json.c proxy/error-json.h \
	proxy/facts.c proxy/facts.h \
	proxy/manager.c proxy/manager.h \
	proxy/incoming.c proxy/incoming.h \
	proxy/json-add.h \
	proxy/manager-api.c \
	proxy/manager-close.c \
	proxy/manager-events.c \
	proxy/manager-metrics.c \
	proxy/manager-peer.c \
	proxy/manager-private.h \
	proxy/manager-settle.c \
	proxy/metrics.c proxy/metrics.h \
	proxy/migration.c proxy/migration.h \
	proxy/migration-counts.c \
	proxy/migration-failure.c \
	proxy/migration-json.c \
	proxy/migration-record.c \
	proxy/migration-state.c proxy/migration-state.h \
	proxy/monitor.c proxy/monitor.h \
	proxy/peer.c proxy/peer.h \
	proxy/peer-link.c \
	proxy/peer-private.h \
	proxy/policy.c proxy/policy.h \
	proxy/source.c proxy/source.h \
	proxy/source-commit.c \
	proxy/source-private.h \
	proxy/source-run.c \
	proxy/source-set.c \
	proxy/source-setup.c \
	proxy/source-undo.c \
	proxy/source-watch.c \
	proxy/store.c proxy/store.h \
	$(NULL)
libmpproxy_la_LIBADD += libmpconf.la libmpqmp.la $(EVHTTP_LIBS) $(JSON_LIBS)

sbin_PROGRAMS += migproxy
migproxy_SOURCES = proxy/main.c
migproxy_LDADD = libmpproxy.la
