# SPDX-License-Identifier: BSD-3-Clause
# The guest is built by tests/guest/build, when a test needs it.
EXTRA_DIST += \
	%D%/README.md \
	%D%/beat.c \
	%D%/build \
	%D%/disk-check \
	%D%/disk.c \
	%D%/init.c \
	%D%/pages.c \
	%D%/work.h
