# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/bench is made of: the lab of two hosts, transports, tables."""
