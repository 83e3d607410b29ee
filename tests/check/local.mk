# SPDX-License-Identifier: BSD-3-Clause
# Checks of the sources themselves; each may be run by hand.
source_checks = \
	%D%/check-docs.sh \
	%D%/check-format.sh \
	%D%/check-headers.sh \
	%D%/check-layering.sh \
	%D%/check-manual.sh \
	%D%/check-shell.sh \
	%D%/check-size.sh \
	%D%/check-spdx.sh \
	%D%/check-spelling.sh \
	%D%/check-states.sh \
	$(NULL)
TESTS += $(source_checks)
EXTRA_DIST += $(source_checks) %D%/functions.sh %D%/spelling.txt

AM_TESTS_ENVIRONMENT += \
	export CC='$(CC)'; \
	export HEADER_CFLAGS='$(EVENT_CFLAGS) $(SSL_CFLAGS) $(JSON_CFLAGS)';
