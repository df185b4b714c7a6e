"""What `import NAME` would find on the search path of the examined interpreter, from file names alone."""

from collections.abc import Iterator
from pathlib import Path

from envdoctor.model.facts import Environment


def find_import_packages(environment: Environment, name: str) -> tuple[Path, ...]:
    """The folders that are the package *name*, in the order of the search path: the first is imported.

    Folders without ``__init__.py`` come last: Python takes one as a namespace package when it finds nothing else.
    """
    folders = [Path(entry.path) / name for entry in environment.search_path]
    unique = list({folder.resolve(): folder for folder in reversed(folders) if folder.is_dir()}.values())[::-1]
    return tuple(sorted(unique, key=lambda folder: not (folder / "__init__.py").is_file()))


def find_shadowing_modules(environment: Environment, package: Path) -> Iterator[Path]:
    """Yield the single files, e.g. ``torch.py``, that are imported instead of *package*."""
    for entry in environment.search_path:
        folder = Path(entry.path)
        if folder == package.parent:
            return  # within one folder a package comes before a file
        for suffix in (".py", *environment.extension_suffixes):
            if (module := folder / f"{package.name}{suffix}").is_file():
                yield module
