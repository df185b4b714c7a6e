"""Everything that is to be said about one library of an environment: plain, frozen data, no judgement.

Paths are text, as they stood on the examined machine.
"""

from dataclasses import dataclass
from enum import Enum

from envdoctor.model.facts import DeviceCode
from envdoctor.model.finding import Outcome
from envdoctor.model.loading import LoadedLibrary, LoadFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededLibrary:
    """One library that another one needs (DT_NEEDED), and the file that the loader takes for it."""

    name: str
    taken: LoadedLibrary | None  # None where there is none
    is_already_loaded: bool  # it was in the process before
    others: tuple[str, ...]  # files of that name that are not taken: they come later, or the loader does not look there


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionNeed:
    """What a library asks of another one in one family of symbol versions, e.g. GLIBCXX of libstdc++.so.6."""

    file: str  # as the library names it
    provider: str  # path of the file that is taken, "" where there is none
    asked: str  # the newest version that is asked for, "GLIBCXX_3.4.29"
    newest_there: str  # of the same family, "" when there is none
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSymbol:
    """One symbol that nothing defines, and who would have it."""

    name: str
    written: str  # as C++ writes it; the same as `name` for C
    holders: tuple[str, ...]  # paths of files that define it and are not asked


class LoadedBy(Enum):
    """What brings a library into every process, or every one that uses torch."""

    PYTHON = "Python"  # it is loaded when the interpreter starts
    TORCH = "torch"  # `import torch` loads it
    NOTHING = ""  # it is loaded when somebody asks for it


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryStory:
    """The story of one file."""

    path: str
    place: str  # its path below the folder of the search path; the whole path of what lies elsewhere
    real_path: str  # behind all links
    distribution: str  # name of the distribution that owns it, "" when none does
    distribution_version: str
    module: str  # the name it is imported by, "" for what is opened by path
    foreign_tag: str  # "cpython-38-x86_64-linux-gnu" where the interpreter passes over it, else ""
    import_chain: tuple[str, ...]  # the statements of its package that lead to it; () when none is certain
    loaded_by: LoadedBy
    loaded: LoadedLibrary | None  # how the process came to it, None where it is not loaded
    after_torch: bool  # told for a process that has imported torch
    unpredicted: str  # why it cannot be told what the loader will say, "" when it can
    failure: LoadFailure | None  # what the loader will say, None when it will load it
    missing_symbols: tuple[MissingSymbol, ...]  # the first of those that nothing defines
    soname: str
    rpath: str
    runpath: str
    needed: tuple[NeededLibrary, ...]
    brought: tuple[LoadedLibrary, ...]  # what is loaded because something of `needed` needs it, in the loader's order
    versions: tuple[VersionNeed, ...]
    device_code: DeviceCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Namesake:
    """Another library that what was asked for may mean."""

    path: str
    module: str
    fails: bool  # the loader will refuse it when it is imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The answer to `envdoctor why`: of several libraries, the one that fails, or else the one that is loaded first."""

    asked: str
    packages: str  # the folder of the search path that the library lies in; of another library, that of torch; or ""
    library: LibraryStory
    namesakes: tuple[Namesake, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A story, and what rules found that speaks of its library."""

    story: Story
    outcomes: tuple[Outcome, ...]  # with those of their findings alone
