"""The device code of one file; what cannot be read is a value with the reason."""

import os
from contextlib import AbstractContextManager
from typing import NamedTuple

from envdoctor.binary.image import Image, read_image
from envdoctor.binary.reader import BinaryError, Reader, open_file
from envdoctor.model.facts import DeviceCode, LibraryRole


class Reading(NamedTuple):
    """What came of reading one file."""

    size: int
    image: Image
    unreadable: str  # why the reading stopped, "" when it did not; what was read before stands


def read_library(opened: AbstractContextManager[Reader], *, deep: bool) -> Reading:
    """Read one file, opened here; what cannot be read is a value with the reason."""
    size, image = 0, Image()
    try:
        with opened as reader:
            size = reader.size
            image = read_image(reader, deep=deep)
    except BinaryError as error:
        return Reading(size, image, str(error))
    except OSError as error:
        return Reading(size, image, f"{error.strerror}")
    more = f", and {len(image.damage) - 1} more faults" if len(image.damage) > 1 else ""
    return Reading(size, image, f"{image.damage[0]}{more}" if image.damage else "")


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
