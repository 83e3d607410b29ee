# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += \
	.ci/run \
	%D%/bench \
	%D%/check \
	%D%/demo \
	%D%/deps \
	%D%/pki \
	%D%/qemu10
