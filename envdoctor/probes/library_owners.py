"""Which distribution a library belongs to, from the lists of files that installers leave."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envdoctor.model.facts import Distribution, MetadataKind
from envdoctor.probes.distributions import normalise
from envdoctor.probes.foreign_files import read_file, read_text
from envdoctor.probes.library_files import Library

_SITE_FOLDERS = ("site-packages", "dist-packages", ".egg")
_NO_PACKAGES = (".dist-info", ".data", ".libs")
_LONGEST_LIST = 1 << 16


@dataclass(frozen=True)
class LibraryOwners:
    """The installed distributions, asked for what they own."""

    distributions: tuple[Distribution, ...]

    def owner_of(self, library: Library) -> str:
        """Name the distribution, "" when none claims the library."""
        # The environment itself often lies in the folder of the project: /repo/.venv/lib/python3.10/site-packages.
        if not library.root.endswith(_SITE_FOLDERS) and (editable := self._find_editable(library.path)):
            return editable
        here = [each for each in self._installed if each.location == library.root]
        # torchvision.libs/libcudart.d9bbffd7.so.10.2 was bundled by auditwheel.
        name = normalise(library.place.partition(os.sep)[0].removesuffix(".libs"))
        for distribution in here:
            if distribution.name == name:
                return name
        # Names that are alike are the likeliest: spconv in spconv-cu118, nvidia/... in nvidia-cublas-cu12.
        here.sort(key=lambda each: not each.name.startswith(name))
        claiming = (each.name for each in here if _claim_of(each, library.place) in self._files(each.metadata_path))
        return next(claiming, "")

    def import_names(self, name: str) -> tuple[str, ...]:
        """Return the names that a distribution is imported by, as far as its metadata tell."""
        if name not in self._known_names:
            found = (each for each in self.distributions if each.name == name and not each.shadowed_by)
            self._known_names[name] = tuple(dict.fromkeys(self._read_names(next(found, None))))
        return self._known_names[name]

    def _read_names(self, distribution: Distribution | None) -> Iterator[str]:
        if distribution is None:
            return
        try:
            listed = read_text(Path(distribution.metadata_path, "top_level.txt"), largest=_LONGEST_LIST).split()
        except OSError:  # only setuptools writes it
            listed = [_import_name(line) for line in self._files(distribution.metadata_path).split(b"\n")]
        yield from (name for name in listed if name.isidentifier())

    @cached_property
    def _known_names(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _find_editable(self, path: str) -> str:
        around = [each for each in self._editable if path.startswith(each.editable_root + os.sep)]
        return max(around, key=lambda each: len(each.editable_root)).name if around else ""

    @cached_property
    def _editable(self) -> list[Distribution]:
        return [each for each in self.distributions if each.editable_root]

    @cached_property
    def _installed(self) -> list[Distribution]:
        kinds = {MetadataKind.DIST_INFO, MetadataKind.EGG_INFO}
        return [each for each in self.distributions if each.metadata_kind in kinds and not each.editable_root]

    @cached_property
    def _known_files(self) -> dict[str, bytes]:
        return {}

    def _files(self, metadata_path: str) -> bytes:
        """The list of installed files, as the installer wrote it."""
        if metadata_path not in self._known_files:
            record = "RECORD" if metadata_path.endswith(".dist-info") else "installed-files.txt"
            try:
                content = read_file(Path(metadata_path, record))
            except OSError:
                content = b""
            self._known_files[metadata_path] = b"\n" + content
        return self._known_files[metadata_path]


def _import_name(line: bytes) -> str:
    """Return what one line of RECORD adds to what can be imported."""
    top, slash, rest = os.fsdecode(line.partition(b",")[0]).partition("/")
    is_module = rest.endswith((".py", ".so")) if slash else top.endswith((".py", ".so"))
    return top.partition(".")[0] if is_module and not top.endswith(_NO_PACKAGES) else ""


def _claim_of(distribution: Distribution, place: str) -> bytes:
    """Return how a list of installed files names the file at *place* (PEP 376; setuptools before it)."""
    path = os.fsencode(place)
    return b"\n" + path + b"," if distribution.metadata_kind is MetadataKind.DIST_INFO else b"/" + path + b"\n"
