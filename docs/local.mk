# SPDX-License-Identifier: BSD-3-Clause
# Manual pages are made from POD; a tarball has them, so that building from it
# needs no pod2man.
POD2MAN = pod2man

manual_pages = %D%/migproxyctl.1 %D%/migproxy.conf.5 %D%/migproxy.8
dist_man_MANS = $(manual_pages)
# What the manual pages and the advice of migrations name.
dist_doc_DATA = \
	%D%/api-errors.md \
	%D%/internals.md \
	%D%/metrics.md \
	%D%/openapi.yaml \
	%D%/performance.md \
	%D%/protocol.md \
	%D%/recovery.md
EXTRA_DIST += \
	%D%/migproxy.8.pod \
	%D%/migproxy.conf.5.pod \
	%D%/migproxyctl.1.pod \
	CHANGES.md \
	HACKING.md \
	SECURITY.md

make_page = $(AM_V_GEN)$(MKDIR_P) $(@D) && $(POD2MAN) --utf8 \
	--center=migproxy --release='$(PACKAGE_VERSION)' --date=' '
%D%/migproxy.8: $(srcdir)/%D%/migproxy.8.pod
	$(make_page) --section=8 --name=MIGPROXY $(srcdir)/%D%/migproxy.8.pod $@
%D%/migproxy.conf.5: $(srcdir)/%D%/migproxy.conf.5.pod
	$(make_page) --section=5 --name=MIGPROXY.CONF $(srcdir)/%D%/migproxy.conf.5.pod $@
%D%/migproxyctl.1: $(srcdir)/%D%/migproxyctl.1.pod
	$(make_page) --section=1 --name=MIGPROXYCTL $(srcdir)/%D%/migproxyctl.1.pod $@
MAINTAINERCLEANFILES = $(manual_pages)

# The options in migproxy.conf(5) come from the option table; a test holds the
# page to it.
check_PROGRAMS += %D%/print-manual
docs_print_manual_SOURCES = %D%/print-manual.c
docs_print_manual_LDADD = libmpconf.la

update-manual: %D%/print-manual
	$(srcdir)/tests/check/check-manual.sh --update %D%/print-manual
.PHONY: update-manual
