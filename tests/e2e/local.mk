# SPDX-License-Identifier: BSD-3-Clause
# Tests with real programs; run by scripts/check, not by make check.
EXTRA_DIST += \
	%D%/conftest.py \
	%D%/demo.py \
	%D%/lab/__init__.py \
	%D%/lab/disk.py \
	%D%/lab/events.py \
	%D%/lab/guest.py \
	%D%/lab/home.py \
	%D%/lab/host.py \
	%D%/lab/leaks.py \
	%D%/lab/link.py \
	%D%/lab/migproxy.py \
	%D%/lab/move.py \
	%D%/lab/process.py \
	%D%/lab/qemu.py \
	%D%/lab/qmp.py \
	%D%/lab/recorder.py \
	%D%/lab/relay.py \
	%D%/lab/testbed.py \
	%D%/lab/wait.py \
	%D%/pytest.ini \
	%D%/test_abuse.py \
	%D%/test_api.py \
	%D%/test_bench.py \
	%D%/test_capture.py \
	%D%/test_config.py \
	%D%/test_fails.py \
	%D%/test_lab_direct.py \
	%D%/test_lab_link.py \
	%D%/test_migrate.py \
	%D%/test_migrate_fails.py \
	%D%/test_multifd.py \
	%D%/test_pages.py \
	%D%/test_recover.py \
	%D%/test_restart.py \
	%D%/test_small_pages.py \
	%D%/test_versions.py
