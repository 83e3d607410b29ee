#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# migproxyctl against a fake daemon (test_ctl*.py); skipped without pytest.
set -euo pipefail

python=/usr/bin/python3
"$python" -c 'import pytest' 2>/dev/null || {
    echo "python3-pytest is not installed"
    exit 77
}
builddir=${builddir:-.}
export builddir PYTHONDONTWRITEBYTECODE=1
# malloc's checks are for the programs of this tree
exec "$python" -m pytest -q -p no:cacheprovider \
    "${srcdir:-.}/tests/unit/test_ctl.py" \
    "${srcdir:-.}/tests/unit/test_ctl_orders.py"
