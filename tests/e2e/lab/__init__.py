# SPDX-License-Identifier: BSD-3-Clause
"""The test lab: real QEMUs, a guest that checks itself, PKI, daemons.

What a test needs is named here; the modules say how it works.
"""
from .disk import Disk
from .events import Events
from .guest import Guest, Report
from .host import (VERSIONS, accelerator, build_dir, guest_files, qemu_program,
                   qemu_unwanted, share, source_dir)
from .home import Home
from .leaks import Footprint, children_of
from .link import Link
from .migproxy import CliResult, Daemon, free_port, make_pki
from .move import Move
from .process import Process
from .qemu import Qemu
from .qmp import Qmp, QmpError
from .testbed import Lab
from .wait import Timeout, stretch, wait_for

__all__ = [
    "CliResult", "Daemon", "Disk", "Events", "Footprint", "Guest", "Home", "Lab", "Link",
    "Move", "Process", "Qemu", "Qmp", "QmpError", "Report", "Timeout",
    "VERSIONS", "accelerator", "build_dir", "children_of", "free_port",
    "guest_files", "make_pki", "qemu_program", "qemu_unwanted", "share",
    "source_dir", "stretch", "wait_for",
]
