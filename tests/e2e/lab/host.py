# SPDX-License-Identifier: BSD-3-Clause
"""What this host and this tree offer: programs, guest, accelerator."""
import functools
import hashlib
import os
import pathlib
import subprocess
import threading

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[3]
QEMU = os.environ.get("MIGPROXY_QEMU", "qemu-system-x86_64")
# "7.2" is the host's own QEMU (Debian 12), whatever MIGPROXY_QEMU made of it;
# "10.0" is that of scripts/qemu10, or the one that MIGPROXY_QEMU10 names
VERSIONS = ("7.2", "10.0")
GUEST_BUILD_S = 900
QEMU10_FETCH_S = 900
# a KVM guest is up in one second; one that is not up by now never will be
KVM_PROBE_S = 15


def source_dir():
    return SOURCE_DIR


def build_dir():
    """Where migproxy was built: MIGPROXY_BUILD, else build/."""
    return pathlib.Path(os.environ.get("MIGPROXY_BUILD")
                        or SOURCE_DIR / "build").resolve()


def cache_dir():
    """As tests/guest/build has it."""
    given = os.environ.get("MIGPROXY_CACHE")
    if given:
        return pathlib.Path(given)
    home = os.environ.get("HOME") or "/root"
    base = os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    return pathlib.Path(base) / "migproxy"


def share():
    """(K, N) of MIGPROXY_TEST_SHARE=K/N: this process runs each Nth test, from
    the Kth on; others run the rest, at the same time. (1, 1) if not set."""
    given = os.environ.get("MIGPROXY_TEST_SHARE", "1/1")
    number, count = (int(part) for part in given.split("/"))
    assert 1 <= number <= count, f"MIGPROXY_TEST_SHARE={given}"
    return number, count


def qemu_unwanted(version):
    """Whether the user said that there is no such QEMU and that its tests are
    to be skipped. Where nothing was said and it cannot be had, they fail."""
    return version == "10.0" and os.environ.get("MIGPROXY_QEMU10") == "none"


@functools.lru_cache(maxsize=None)
def qemu_program(version):
    """The QEMU of that version, fetched when missing."""
    if version == "7.2":
        return QEMU
    assert version in VERSIONS, version
    given = os.environ.get("MIGPROXY_QEMU10")
    if given:
        return given
    done = subprocess.run([SOURCE_DIR / "scripts/qemu10"], check=True,
                          stdout=subprocess.PIPE, text=True,
                          timeout=QEMU10_FETCH_S)
    return done.stdout.strip().splitlines()[-1]


@functools.lru_cache(maxsize=None)
def guest_files():
    """Directory with vmlinuz and initramfs.cpio.gz, built when missing."""
    done = subprocess.run([SOURCE_DIR / "tests/guest/build"], check=True,
                          stdout=subprocess.PIPE, text=True,
                          timeout=GUEST_BUILD_S)
    return pathlib.Path(done.stdout.strip().splitlines()[-1])


def _boots_with_kvm():
    """Whether the test guest really comes up under KVM: /dev/kvm may be
    there, and may even run a boot sector, and still not run Linux."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    files = guest_files()
    argv = [QEMU, "-nodefaults", "-no-user-config", "-display", "none",
            "-accel", "kvm", "-cpu", "host", "-machine", "q35", "-m", "128",
            "-serial", "stdio", "-no-reboot",
            "-kernel", files / "vmlinuz",
            "-initrd", files / "initramfs.cpio.gz",
            "-append", "console=ttyS0 panic=-1 work.mib=1 work.disk=0 "
                       "work.beat=0"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as qemu:
        killer = threading.Timer(KVM_PROBE_S, qemu.kill)
        killer.daemon = True
        killer.start()
        try:
            return any(b"work ready" in line for line in qemu.stdout)
        finally:
            killer.cancel()
            qemu.kill()


@functools.lru_cache(maxsize=None)
def accelerator():
    """"kvm" if it runs a Linux guest, else "tcg". MIGPROXY_ACCEL decides if
    set; the answer of a probe holds until the host boots again."""
    given = os.environ.get("MIGPROXY_ACCEL")
    if given:
        return given
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()
    version = subprocess.run([QEMU, "--version"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    key = hashlib.sha256((boot + version).encode()).hexdigest()[:16]
    answer = cache_dir() / f"accelerator-{key}"
    if not answer.exists():
        answer.parent.mkdir(parents=True, exist_ok=True)
        # another process may read it at this moment
        draft = answer.with_suffix(f".{os.getpid()}")
        draft.write_text("kvm" if _boots_with_kvm() else "tcg")
        draft.replace(answer)
    return answer.read_text()
