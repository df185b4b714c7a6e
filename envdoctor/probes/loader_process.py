"""The emulated process of the examined interpreter: as it starts, and after `import torch` has done its work."""

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from envdoctor.binary.binding import Binding
from envdoctor.binary.library_search import split_preload
from envdoctor.binary.link import Process, start_process
from envdoctor.binary.reader import BinaryError
from envdoctor.errors import ProbeError
from envdoctor.model.facts import Absence, Environment, TorchBuild, Unavailable, Variable
from envdoctor.model.loading import LoadFailure
from envdoctor.probes.import_path import find_import_packages
from envdoctor.probes.loader_files import LoaderFiles
from envdoctor.probes.loader_settings import (
    MACHINES,
    read_interpreter_file,
    read_preload_file,
    read_search_rules,
)
from envdoctor.probes.torch_import import Preload, TorchImport, read_torch_import

# Modules of the standard library that every `import torch` imports and that need libraries of the system.
_STANDARD_MODULES = ("_ctypes", "zlib", "_bz2", "_lzma", "_hashlib", "_ssl")
_STANDARD_LIBRARY = "standard library"

# The module of numpy, up to 1.26 and since 2.0, that needs its other libraries. torch imports numpy when it is there:
# up to 1.4 first of all, since 1.5 while `torch._C` initialises (torch/csrc/utils/tensor_numpy.cpp).
_NUMPY_MODULES = ("_core/_multiarray_umath", "core/_multiarray_umath")

# AMD's own wheels bring it, since 2.10: it opens libraries of ROCm in ways of its own.
_ROCM_START = "_rocm_init.py"

# Opened by name while torch 2.0 and 2.1 initialise (torch/csrc/jit/codegen/cuda/interface.cpp); it may fail.
_FUSER = "libnvfuser_codegen.so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Emulated processes of one interpreter; each is copied before anything is loaded into it."""

    alone: Process  # nothing is imported
    after_torch: Process | None  # None where there is no torch, or where it cannot be loaded
    torch_failure: LoadFailure | None
    glibc: str
    library_path: tuple[str, ...]
    preload: tuple[str, ...]
    torch_is_global: bool  # everything that is opened after torch finds its symbols


def start_processes(
    environment: Environment, torch: TorchBuild | Unavailable, variables: Iterable[Variable]
) -> Processes | Unavailable:
    """Start the examined interpreter, and let it import torch."""
    if isinstance(environment.interpreter, Unavailable):
        return environment.interpreter
    if not environment.platform.startswith("linux"):
        return Unavailable(f"{environment.platform or 'this platform'} has another loader", Absence.NOT_APPLICABLE)
    values = {variable.name: variable.value for variable in variables}
    try:
        return _start(environment, torch, os.path.realpath(environment.interpreter), values)
    except (ProbeError, BinaryError, OSError, ValueError) as exc:
        return Unavailable(f"the process of `{environment.interpreter}` cannot be emulated: {exc}")


def _start(
    environment: Environment, torch: TorchBuild | Unavailable, executable: str, values: dict[str, str]
) -> Processes | Unavailable:
    machine, loader = read_interpreter_file(executable)
    if machine not in MACHINES:
        return Unavailable(f"`{executable}` is not for x86-64 or aarch64", Absence.NOT_APPLICABLE)
    if not loader or "ld-musl" in loader:
        kind = "is started by musl's loader" if loader else "is linked statically"
        return Unavailable(f"`{executable}` {kind}, which is not emulated", Absence.NOT_APPLICABLE)
    rules = read_search_rules(loader, machine, values.get("LD_LIBRARY_PATH", ""))
    preload = split_preload(values.get("LD_PRELOAD", ""))
    alone = start_process(LoaderFiles(), rules, executable, (*preload, *read_preload_file()))
    if isinstance(alone, LoadFailure):
        return Unavailable(f"the interpreter itself does not start: {alone.words}")
    after_torch, failure, is_global = None, None, False
    if not isinstance(torch, Unavailable):
        imported = _Torch(environment, torch, values, read_torch_import(Path(torch.root)))
        after_torch, failure = _import_torch(alone, imported)
        is_global = imported.is_global
    return Processes(
        alone=alone,
        after_torch=after_torch,
        torch_failure=failure,
        glibc=".".join(map(str, rules.glibc)),
        library_path=rules.library_path,
        preload=preload,
        torch_is_global=is_global,
    )


# --- torch -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Torch:
    """The torch that is imported, and where."""

    environment: Environment
    build: TorchBuild
    variables: dict[str, str]
    steps: TorchImport

    @property
    def is_global(self) -> bool:
        """Whether the module is opened with RTLD_GLOBAL, as up to 1.4."""
        return not self.steps.opens_global_deps or bool(self.variables.get("TORCH_USE_RTLD_GLOBAL"))

    @property
    def library_folder(self) -> str:
        return os.path.join(self.build.root, "lib")

    @property
    def module(self) -> str | None:
        """The extension module `torch._C`."""
        candidates = [os.path.join(self.build.root, f"_C{suffix}") for suffix in self.environment.extension_suffixes]
        return next((path for path in candidates if os.path.isfile(path)), None)


def _import_torch(alone: Process, torch: _Torch) -> tuple[Process | None, LoadFailure | None]:
    """Import torch; the second value is what stops it."""
    module = torch.module
    if module is None:  # another fact says so: no loader is asked
        return None, None
    if os.path.isfile(os.path.join(torch.build.root, _ROCM_START)):
        raise ProbeError(f"torch opens libraries of ROCm by its `{_ROCM_START}`, which is not followed")
    process = alone.copy()
    for path in _find_standard_modules(torch.environment):
        failure = _try_to_open(process, path)
        if failure and os.path.basename(path).startswith("_ctypes"):
            return None, failure
    steps = torch.steps
    if not steps.opens_global_deps:
        _open_numpy(process, torch.environment)
    if torch.is_global:
        binding = Binding.NOW if torch.variables.get("LD_BIND_NOW") else Binding.LAZY
        failure = process.open(module, is_global=True, binding=binding)
    else:
        failure = _open_global_deps(process, torch) or process.open(module)
    if failure:
        return None, failure
    fuser = os.path.join(torch.library_folder, _FUSER)
    if os.path.isfile(fuser):
        _try_to_open(process, fuser)
    _open_numpy(process, torch.environment)
    return process, None


def _try_to_open(process: Process, path: str) -> LoadFailure | None:
    """Open what torch can do without; a library that cannot be judged is left out."""
    try:
        return process.open(path)
    except BinaryError:
        return None


def _open_numpy(process: Process, environment: Environment) -> None:
    for package in find_import_packages(environment, "numpy")[:1]:
        files = (f"{package}/{name}{suffix}" for name in _NUMPY_MODULES for suffix in environment.extension_suffixes)
        for path in filter(os.path.isfile, files):
            _try_to_open(process, path)


def _find_standard_modules(environment: Environment) -> Iterable[str]:
    folders = [entry.path for entry in environment.search_path if entry.origin == _STANDARD_LIBRARY]
    for name in _STANDARD_MODULES:
        files = (f"{folder}/{name}{suffix}" for folder in folders for suffix in environment.extension_suffixes)
        if path := next(filter(os.path.isfile, files), None):
            yield path


def _open_global_deps(process: Process, torch: _Torch) -> LoadFailure | None:
    steps = torch.steps
    path = os.path.join(torch.library_folder, "libtorch_global_deps.so")
    failure = process.open(path, is_global=True)
    if failure is None:
        if any(steps.needs_loaded in library.path for library in process.loaded):
            for preload in _find_preloads(steps, steps.after_success, torch):
                if preload is None or process.open(preload):
                    break  # torch goes on without it
        return None
    if not any(text in failure.words for text in steps.about):
        return failure
    for preload in _find_preloads(steps, steps.after_failure, torch):
        if preload is None:  # a ValueError of torch follows, which says less than the loader said
            return failure
        if another := process.open(preload):
            return another
    return process.open(path, is_global=True)


def _find_preloads(steps: TorchImport, preloads: Iterable[Preload], torch: _Torch) -> Iterator[str | None]:
    """Find the files that torch opens, one after the other; None stands for one that it cannot do without."""
    cuda = torch.build.build_cuda_version
    major = cuda.major if cuda else 0
    for preload in preloads:
        if preload.least_cuda_major <= major:
            path = _find_preload(preload, steps, major, torch)
            if path or preload.is_required:
                yield path


def _find_preload(preload: Preload, steps: TorchImport, cuda_major: int, torch: _Torch) -> str | None:
    """Find the file that torch takes, by the same calls: of several, the one that the system lists first."""
    places: list[tuple[str, ...]] = [("nvidia", preload.folder)]
    if steps.looks_in_cuda_folder:
        places.append(("nvidia", f"cu{cuda_major}"))
    if steps.looks_beside_nvidia:
        places.append((preload.folder,))
    entries = [entry.path for entry in torch.environment.search_path]
    for entry in entries:
        for place in places:
            folder = os.path.join(entry, *place, "lib")
            # Most are not there, and `glob` takes ten times as long to say so.
            if os.path.isdir(folder) and (found := glob.glob(os.path.join(folder, preload.pattern))):
                return found[0]
    if "*" not in preload.pattern:  # torch 1.13 opens the last one that it looked for, whether it is there or not
        tops = [top for entry in entries if os.path.exists(top := os.path.join(entry, "nvidia"))]
        return os.path.join(tops[-1], preload.folder, "lib", preload.pattern) if tops else None
    return None
