"""Two names of a folder exchanged at once, where the system can do that."""

import errno
import os
import sys

_EXCHANGE = 2
"""``RENAME_EXCHANGE`` of Linux, and ``RENAME_SWAP`` of macOS."""

_CANNOT = frozenset(
    {errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ENOTSUP, getattr(errno, "EOPNOTSUPP", 0)}
)
_CALLS = {"linux": "renameat2", "darwin": "renameatx_np"}


def swap_names(folder: int | None, one: str, other: str) -> bool:
    """Exchange what two names stand for; nobody ever finds one of them missing.

    Args:
        folder: Descriptor of their folder; None if there can be none.
        one: A name in it.
        other: Another name in it.

    Returns:
        Whether it was done; False if the system or the file system cannot.

    Raises:
        OSError: If one of them does not exist, or it is not permitted.
    """
    name = _CALLS.get(sys.platform)
    if name is None or folder is None:
        return False
    import ctypes  # noqa: PLC0415 - 3 ms, and of use only when a file is changed

    call = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if call is None:
        return False
    if call(folder, os.fsencode(one), folder, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code))
