# SPDX-License-Identifier: BSD-3-Clause
libmpproxy_la_SOURCES += \
	proxy/api.h
