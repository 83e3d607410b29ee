# SPDX-License-Identifier: BSD-3-Clause
libmptransport_la_SOURCES += transport/chunk.h transport/frame.h transport/mux.h
