"""A real environment with real libraries in it, for the tests of what the dynamic loader does there."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from envdoctor import kb
from envdoctor.model.loading import FailedLoad, Loader
from envdoctor.probes.distributions import find_distributions
from envdoctor.probes.environment import find_environment
from envdoctor.probes.library_files import find_libraries
from envdoctor.probes.loader import Installation, find_loader
from envdoctor.probes.torch_build import read_torch_build
from tests.builders import variables
from tests.compiler import build_library
from tests.probes.pythons import site_packages_of

VERSION = "3.11"
SUFFIX = f".cpython-{VERSION.replace('.', '')}-{os.uname().machine}-linux-gnu.so"


@dataclass(frozen=True)
class Venv:
    """A real environment that tests fill."""

    python: Path

    @property
    def site(self) -> Path:
        return site_packages_of(self.python)

    def package(self, name: str, source: str = "", *, owned: str = "") -> Path:
        """Write a package, and the metadata of its distribution."""
        folder = self.site / name
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text(source)
        self.distribution(owned or name, f"{name}/__init__.py", f"{name}/_C{SUFFIX}")
        return folder

    def distribution(self, name: str, *files: str, requires: str = "") -> None:
        metadata = self.site / f"{name}-1.0.dist-info"
        metadata.mkdir(exist_ok=True)
        demand = f"Requires-Dist: {requires}\n" if requires else ""
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{demand}")
        (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in files))

    def torch(self, source: str = "void f() {}", *, needs: tuple[Path, ...] = ()) -> Path:
        """Build what of torch the loader meets; return its library."""
        library = build_library(self.site / "torch" / "lib" / "libtorch.so", source, needs=needs)
        rpath = "-Wl,-rpath,$ORIGIN/lib"
        build_library(self.site / "torch" / f"_C{SUFFIX}", init("_C"), needs=(library,), options=(rpath,))
        # A module without the headers of Python cannot be imported, but opened like one of torch up to 1.4.
        opening = f"import ctypes\nctypes.CDLL(__path__[0] + '/_C{SUFFIX}', ctypes.RTLD_GLOBAL)\n"
        (self.site / "torch" / "__init__.py").write_text(opening)
        (self.site / "torch" / "version.py").write_text("__version__ = '2.1.2'\ncuda = None\n")
        return library

    def installation(self, **values: str) -> Installation:
        environment = find_environment(python=str(self.python), prefix="")
        distributions = find_distributions(environment)
        torch = read_torch_build(environment, distributions)
        return Installation(
            environment=environment,
            distributions=distributions,
            torch=torch,
            libraries=find_libraries(environment, torch),
            variables=variables(**values),
        )

    def predict(self, **values: str) -> Loader:
        loader = find_loader(self.installation(**values), kb.load())
        assert isinstance(loader, Loader)
        return loader

    def fail(self, **values: str) -> FailedLoad:
        [failed] = self.predict(**values).failed
        return failed

    def real_words(self, statement: str, **values: str) -> str:
        """What the real loader says."""
        program = f"try:\n    {statement}\nexcept (ImportError, OSError) as exc:\n    print(exc, end='')"
        environ = {**os.environ, **values}
        done = subprocess.run([self.python, "-c", program], capture_output=True, text=True, check=True, env=environ)
        return done.stdout


def init(name: str, body: str = "return 0;") -> str:
    return f'extern "C" void *PyInit_{name}() {{ {body} }}\n'
