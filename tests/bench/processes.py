"""Runs programs and says what they cost."""

import os
import subprocess
import time
from pathlib import Path


def high_water_kb(pid: int | str) -> int:
    """Return the most memory that the process has had since it became itself, in KiB.

    Args:
        pid: The process, or ``self``.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((x for x in status.splitlines() if x.startswith("VmHWM")), "VmHWM: 0")
    return int(line.split()[1])


def run_once(
    command: list[str], env: dict[str, str], cwd: Path
) -> tuple[float, float, float, float]:
    """Return when it began, how long it took, its CPU seconds and its peak memory in MB."""
    begun = time.monotonic()
    process = subprocess.Popen(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    peak = 0
    while True:
        # wait4 would count the memory of this program, of which the child is a copy at first.
        peak = max(peak, high_water_kb(process.pid))
        time.sleep(0.01)
        done, status, usage = os.wait4(process.pid, os.WNOHANG)  # type: ignore[attr-defined,unused-ignore]
        if done:
            break
    seconds = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"zpi ended with {process.returncode}")
    return begun, seconds, usage.ru_utime + usage.ru_stime, peak / 1024
