# SPDX-License-Identifier: BSD-3-Clause
libmptransport_la_SOURCES += transport/hello.h transport/tls.h transport/lane.h
