"""What is loaded in an emulated process: glibc's list of link maps, their names and their scopes."""

import posixpath
from collections.abc import Hashable
from dataclasses import dataclass, field

from envdoctor.binary.loadable import LibraryImage
from envdoctor.binary.loader_world import Found
from envdoctor.model.loading import LoadedLibrary


@dataclass(frozen=True, slots=True, eq=False)
class LinkMap:
    """One loaded file: glibc's `struct link_map`."""

    image: LibraryImage
    library: LoadedLibrary
    origin: str  # what $ORIGIN stands for
    loader: "LinkMap | None"  # which needed it first

    @property
    def path(self) -> str:
        """The path as the loader put it together."""
        return self.library.path

    @property
    def chain(self) -> tuple[str, ...]:
        """The paths from what was opened down to this one."""
        chain, loader = [self.path], self.loader
        while loader:  # it may be longer than Python nests calls
            chain.append(loader.path)
            loader = loader.loader
        return tuple(reversed(chain))


@dataclass
class LinkState:
    """All link maps of a process, and by what they are found again."""

    maps: dict[LinkMap, None]  # in the order of loading
    global_scope: dict[LinkMap, None]  # what every look-up of a symbol begins with
    by_name: dict[str, LinkMap] = field(default_factory=dict)
    by_identity: dict[Hashable, LinkMap] = field(default_factory=dict)
    scopes: dict[LinkMap, list[LinkMap]] = field(default_factory=dict)  # of what was opened
    needed: dict[LinkMap, list[LinkMap]] = field(default_factory=dict)

    def copy(self) -> "LinkState":
        """Copy it so that either can go on by itself."""
        return LinkState(
            maps=dict(self.maps),
            global_scope=dict(self.global_scope),
            by_name=dict(self.by_name),
            by_identity=dict(self.by_identity),
            scopes=dict(self.scopes),
            needed=dict(self.needed),
        )

    def add(self, loaded: LinkMap) -> None:
        """Enter a file under all of its names."""
        self.maps[loaded] = None
        self.by_identity[loaded.image.identity] = loaded
        for name in (loaded.library.name, loaded.path, loaded.image.elf.soname):
            if name:
                self.by_name.setdefault(name, loaded)


def make_link_map(name: str, found: Found, loader: LinkMap | None) -> LinkMap:
    """Make the link map of a file that was found for a name."""
    library = LoadedLibrary(
        name=name,
        path=found.path,
        found_through=found.found_through,
        folder=found.folder,
        needed_by=loader.path if loader else "",
    )
    # Not resolved: the loader takes the folder as it stands in the path.
    return LinkMap(found.image, library, posixpath.dirname(found.path) or ".", loader)
