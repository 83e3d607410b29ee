# SPDX-License-Identifier: BSD-3-Clause
# The programs are listed where their libraries are; this is scripts/bench.
EXTRA_DIST += \
	%D%/measure/__init__.py \
	%D%/measure/cpu.py \
	%D%/measure/main.py \
	%D%/measure/network.py \
	%D%/measure/run.py \
	%D%/measure/statistics.py \
	%D%/measure/tables.py \
	%D%/measure/transports.py
