"""Reading one compiled file, wherever it lies; what cannot be read is a value with the reason."""

from contextlib import AbstractContextManager
from typing import NamedTuple

from envdoctor.binary.image import Image, read_image
from envdoctor.binary.reader import BinaryError, Reader


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
