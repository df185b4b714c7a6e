"""Whether a daemon of NVIDIA's Multi-Process Service runs, through which CUDA programs share a GPU."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from envdoctor.model.facts import Unavailable

# NVIDIA, Multi-Process Service, "Environment variables": CUDA_MPS_PIPE_DIRECTORY.
_DEFAULT_DIRECTORY = "/tmp/nvidia-mps"  # noqa: S108  the daemon's choice, not ours
# What connect(2) says of a socket that nobody holds any more, and of one that a process holds.
_STALE = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTSOCK})
_ALIVE = frozenset({0, errno.EPROTOTYPE})


def find_mps_directory(root: Path, environ: Mapping[str, str]) -> str | Unavailable:
    """Return the folder where CUDA programs find a running daemon, "" when none runs."""
    directory = environ.get("CUDA_MPS_PIPE_DIRECTORY", _DEFAULT_DIRECTORY)
    control = root / directory.lstrip("/") / "control"
    if not os.path.exists(control):
        return ""
    code = _knock(control)
    if code in _STALE:
        return ""
    return directory if code in _ALIVE else Unavailable(f"{directory}/control: {errno.errorcode.get(code, code)}")


def _knock(control: Path) -> int:
    """Return the error number of connecting with a kind of socket that the daemon does not use: it hears nothing."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as visitor:
        try:
            return visitor.connect_ex(str(control))
        except OSError:  # the path is longer than that of a socket can be
            return errno.ENOENT
