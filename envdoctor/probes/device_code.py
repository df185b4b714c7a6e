"""The device code of one library, as a fact."""

import os

from envdoctor.binary.reader import open_file
from envdoctor.model.facts import DeviceCode, LibraryRole
from envdoctor.probes.reading import read_library


def read_device_code(
    path: str | os.PathLike[str],
    *,
    role: LibraryRole,
    distribution: str = "",
    always_loaded: bool = False,
    deep: bool = False,
) -> DeviceCode:
    """Read the device code of one library; what cannot be read is a value with its reason in `unreadable`."""
    size, image, unreadable = read_library(open_file(path), deep=deep)
    return DeviceCode(
        library=os.fspath(path),
        distribution=distribution,
        role=role,
        always_loaded=always_loaded,
        size=size,
        containers=image.containers,
        has_hip_code=image.has_hip_code,
        needed=image.needed,
        unreadable=unreadable,
    )
