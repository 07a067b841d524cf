"""Two directories that change places in one step, and one process at a time that lets them."""

import ctypes
import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_HERE = -100  # AT_FDCWD of Linux: relative paths are seen from the working directory
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
# NFS locks no directory; there is no exchange there either.
_NO_LOCKS = {errno.EBADF, errno.ENOLCK, *_CANNOT}
_LONGEST_WAIT, _PAUSE = 60.0, 0.01  # seconds


def exchange(first: Path, second: Path) -> bool:
    """Let two names change places in one step; False, and nothing done, where the system cannot.

    Linux: renameat2(2) with RENAME_EXCHANGE (ext4, xfs, btrfs, tmpfs and others; not NFS). macOS:
    renamex_np(2) with RENAME_SWAP (APFS).

    Raises:
        OSError: one of them is missing, or may not be renamed.
    """
    call = _exchange_of_system()
    if call is None:
        return False
    if call(os.fsencode(first), os.fsencode(second)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number))


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which dies with this process; where there are no locks, hold nothing.

    Raises:
        TimeoutError: somebody else has held it for a minute.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    until = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, "another publisher has held it for a minute") from None
            time.sleep(_PAUSE)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return
        else:
            return


@cache
def _exchange_of_system() -> Callable[[bytes, bytes], int] | None:
    system = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            swap = system.renamex_np
            swap.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
            return lambda first, second: int(swap(first, second, _EXCHANGE))
        rename = system.renameat2
    except AttributeError:  # an older C library
        return None
    rename.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return lambda first, second: int(rename(_HERE, first, _HERE, second, _EXCHANGE))
