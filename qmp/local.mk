# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
	%D%/json-stream.h \
	%D%/json-value.h \
	%D%/qmp.h \
	%D%/qmp-caps.h \
	%D%/qmp-migrate.h \
	%D%/qmp-probe.h
