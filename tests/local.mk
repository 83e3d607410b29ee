# SPDX-License-Identifier: BSD-3-Clause
include tests/unit/util.mk
include tests/unit/conf.mk
include tests/unit/transport-mux.mk
include tests/unit/transport-lane.mk
include tests/unit/stream.mk
include tests/unit/qmp.mk
include tests/unit/proxy-carrier.mk
include tests/unit/proxy-api.mk
include tests/unit/proxy-control.mk
include tests/check/local.mk
include tests/bench/local.mk
include tests/guest/local.mk
include tests/e2e/local.mk
