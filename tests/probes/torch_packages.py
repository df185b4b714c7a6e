"""Packages `torch` made of small compiled libraries, whose `__init__.py` opens them as that of one release does.

They can be imported for real, so what is predicted of them can be compared.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.compiler import build_library
from tests.probes.pythons import ask, site_packages_of

_HEAD = """
import ctypes, glob, os, sys
_here = os.path.dirname(os.path.abspath(__file__))
"""

_OPEN_MODULE = """
_load_global_deps()
ctypes.CDLL(glob.glob(os.path.join(_here, "_C.*so"))[0], mode=os.RTLD_NOW)
"""

_ONLY_GLOBAL_DEPS = """
def _load_global_deps():
    lib_path = os.path.join(_here, 'lib', 'libtorch_global_deps.so')
    ctypes.CDLL(lib_path, mode=ctypes.RTLD_GLOBAL)

"""

_TWO_LIBRARIES = '''
def _preload_cuda_deps():
    """ Preloads cudnn/cublas deps if they could not be found otherwise """
    for path in sys.path:
        nvidia_path = os.path.join(path, 'nvidia')
        if not os.path.exists(nvidia_path):
            continue
        cublas_path = os.path.join(nvidia_path, 'cublas', 'lib', 'libcublas.so.11')
        cudnn_path = os.path.join(nvidia_path, 'cudnn', 'lib', 'libcudnn.so.8')
        if not os.path.exists(cublas_path) or not os.path.exists(cudnn_path):
            continue
        break
    ctypes.CDLL(cublas_path)
    ctypes.CDLL(cudnn_path)


def _load_global_deps():
    lib_path = os.path.join(_here, 'lib', 'libtorch_global_deps.so')
    try:
        ctypes.CDLL(lib_path, mode=ctypes.RTLD_GLOBAL)
    except OSError as err:
        if 'libcublas.so.11' not in err.args[0]:
            raise err
        _preload_cuda_deps()
        ctypes.CDLL(lib_path, mode=ctypes.RTLD_GLOBAL)

'''

_TABLE = """
def _preload_cuda_deps(lib_folder, lib_name):
    lib_path = None
    for path in sys.path:
        nvidia_path = os.path.join(path, 'nvidia')
        candidate_lib_paths = glob.glob(os.path.join(nvidia_path, lib_folder, 'lib', lib_name))
        if candidate_lib_paths and not lib_path:
            lib_path = candidate_lib_paths[0]
    if not lib_path:
        raise ValueError(f"{lib_name} not found in the system path {sys.path}")
    ctypes.CDLL(lib_path)


def _load_global_deps():
    lib_path = os.path.join(_here, 'lib', 'libtorch_global_deps.so')
    try:
        ctypes.CDLL(lib_path, mode=ctypes.RTLD_GLOBAL)
    except OSError as err:
        cuda_libs: dict = {
            'cublas': 'libcublas.so.*[0-9]',
            'cudnn': 'libcudnn.so.*[0-9]',
            'cuda_runtime': 'libcudart.so.*[0-9].*[0-9]',
        }
        is_cuda_lib_err = [lib for lib in cuda_libs.values() if(lib.split('.')[0] in err.args[0])]
        if not is_cuda_lib_err:
            raise err
        for lib_folder, lib_name in cuda_libs.items():
            _preload_cuda_deps(lib_folder, lib_name)
        ctypes.CDLL(lib_path, mode=ctypes.RTLD_GLOBAL)

"""

_TWO_MORE_AFTER_SUCCESS = """
def _get_cuda_dep_paths(path, lib_folder, lib_name):
    nvidia_lib_paths = glob.glob(os.path.join(path, "nvidia", lib_folder, "lib", lib_name))
    lib_paths = glob.glob(os.path.join(path, lib_folder, "lib", lib_name))
    return nvidia_lib_paths + lib_paths


def _preload_cuda_deps(lib_folder: str, lib_name: str) -> None:
    lib_path = None
    for path in sys.path:
        candidate_lib_paths = _get_cuda_dep_paths(path, lib_folder, lib_name)
        if candidate_lib_paths:
            lib_path = candidate_lib_paths[0]
            break
    if not lib_path:
        raise ValueError(f"{lib_name} not found in the system path {sys.path}")
    ctypes.CDLL(lib_path)


def _load_global_deps() -> None:
    global_deps_lib_path = os.path.join(_here, "lib", "libtorch_global_deps.so")
    try:
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
        try:
            with open("/proc/self/maps") as f:
                _maps = f.read()
            if "nvidia/cuda_runtime/lib/libcudart.so" not in _maps:
                return
            _preload_cuda_deps("cuda_nvrtc", "libnvrtc.so.*[0-9]")
            _preload_cuda_deps("nvjitlink", "libnvJitLink.so.*[0-9]")
        except Exception:
            pass

    except OSError as err:
        from torch.version import cuda as cuda_version

        cuda_libs: dict[str, str] = {
            "cublas": "libcublas.so.*[0-9]",
            "cudnn": "libcudnn.so.*[0-9]",
            "cuda_runtime": "libcudart.so.*[0-9]",
        }
        if cuda_version is not None:
            t_version = cuda_version.split(".")
            t_major = int(t_version[0])
            if t_major >= 12:
                cuda_libs["cufile"] = "libcufile.so.*[0-9]"
        is_cuda_lib_err = [
            lib for lib in cuda_libs.values() if lib.split(".")[0] in err.args[0]
        ]
        if not is_cuda_lib_err:
            raise err
        for lib_folder, lib_name in cuda_libs.items():
            _preload_cuda_deps(lib_folder, lib_name)
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)

"""

_ALL_AFTER_SUCCESS = """
def _get_cuda_dep_paths(path: str, lib_folder: str, lib_name: str):
    from torch.version import cuda as cuda_version

    nvidia_lib_paths = glob.glob(
        os.path.join(path, "nvidia", lib_folder, "lib", lib_name)
    )
    if cuda_version is not None:
        maj_cuda_version = cuda_version.split(".")[0]
        nvidia_lib_paths += glob.glob(
            os.path.join(path, "nvidia", f"cu{maj_cuda_version}", "lib", lib_name)
        )
    lib_paths = glob.glob(os.path.join(path, lib_folder, "lib", lib_name))
    return nvidia_lib_paths + lib_paths


def _preload_cuda_lib(lib_folder: str, lib_name: str, required: bool = True) -> None:
    lib_path = None
    for path in sys.path:
        candidate_lib_paths = _get_cuda_dep_paths(path, lib_folder, lib_name)
        if candidate_lib_paths:
            lib_path = candidate_lib_paths[0]
            break
    if not lib_path and required:
        raise ValueError(f"{lib_name} not found in the system path {sys.path}")
    if lib_path:
        ctypes.CDLL(lib_path)


def _preload_cuda_deps(err=None, required: bool = True) -> None:
    cuda_libs: list = [
        ("cublas", "libcublas.so.*[0-9]"),
        ("cudnn", "libcudnn.so.*[0-9]"),
        ("cuda_nvrtc", "libnvrtc.so.*[0-9]"),
        ("cuda_runtime", "libcudart.so.*[0-9]"),
    ]
    if err is not None and not [
        lib for _, lib in cuda_libs if lib.split(".", 1)[0] in err.args[0]
    ]:
        raise err
    for lib_folder, lib_name in cuda_libs:
        _preload_cuda_lib(lib_folder, lib_name, required=required)
    _preload_cuda_lib("nvtx", "libnvToolsExt.so.*[0-9]", required=False)


def _load_global_deps() -> None:
    global_deps_lib_path = os.path.join(_here, "lib", "libtorch_global_deps.so")
    try:
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
        try:
            with open("/proc/self/maps") as f:
                _maps = f.read()
            if "libcudart.so" not in _maps:
                return
            _preload_cuda_deps(required=False)
        except Exception:
            pass

    except OSError as err:
        _preload_cuda_deps(err)
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)

"""

INITS = {
    "1.4": _HEAD + '\nctypes.CDLL(glob.glob(os.path.join(_here, "_C.*so"))[0], mode=os.RTLD_GLOBAL | os.RTLD_LAZY)\n',
    "1.12": _HEAD + _ONLY_GLOBAL_DEPS + _OPEN_MODULE,
    "1.13": _HEAD + _TWO_LIBRARIES + _OPEN_MODULE,
    "2.0": _HEAD + _TABLE + _OPEN_MODULE,
    "2.8": _HEAD + _TWO_MORE_AFTER_SUCCESS + _OPEN_MODULE,
    "2.14": _HEAD + _ALL_AFTER_SUCCESS + _OPEN_MODULE,
}

_LIBRARIES = {
    "cublas/lib/libcublas.so.11": 11,
    "cudnn/lib/libcudnn.so.8": 11,
    "cublas/lib/libcublas.so.12": 12,
    "cuda_runtime/lib/libcudart.so.12.1": 12,
    "cudnn/lib/libcudnn.so.9": 12,
    "cuda_nvrtc/lib/libnvrtc.so.12": 12,
    "nvjitlink/lib/libnvJitLink.so.12": 12,
    "cufile/lib/libcufile.so.0": 12,
    "nvtx/lib/libnvToolsExt.so.1": 12,
}

_ASK = """
import ctypes, json, sys
try:
    import torch
    words = ""
except Exception as error:
    while error is not None and type(error) is not OSError:
        error = error.__context__
    words = str(error)
loaded = sorted({line.split()[-1] for line in open("/proc/self/maps") if "/site-packages/" in line and ".so" in line})
print("\\n" + json.dumps([words, loaded]))
"""


def make_torch(python: Path, release: str, *, finds_nvidia: bool) -> Path:
    """Give an environment a torch and NVIDIA's libraries, which it finds by itself or has to be helped to."""
    site_packages = site_packages_of(python)
    torch, cuda = site_packages / "torch", 11 if release in {"1.12", "1.13"} else 12
    names = [name for name, major in _LIBRARIES.items() if major == cuda]
    # Up to 1.12 wheels bring everything in torch/lib.
    needs = () if release in {"1.4", "1.12"} else tuple(Path(name).name for name in names[:2])
    folders = ":".join(f"$ORIGIN/../../nvidia/{Path(name).parent}" for name in names)
    suffix = ask(python, "__import__('importlib.machinery').machinery.EXTENSION_SUFFIXES[0]")
    contents = {
        torch / "lib" / "libtorch_global_deps.so": _compile(needs=needs, search=folders if finds_nvidia else ""),
        torch / "lib" / "libtorch_python.so": _compile('extern "C" void torch_symbol() {}'),
        torch / f"_C{suffix}": _compile(needs=("libtorch_python.so",), search="$ORIGIN/lib"),
        torch / "version.py": f"__version__ = '{release}.0'\ncuda = '{cuda}.1'\n".encode(),
        torch / "__init__.py": INITS[release].encode(),
    }
    contents |= {site_packages / "nvidia" / name: _compile() for name in names}
    for path, content in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return torch


@cache
def _compile(source: str = "", needs: tuple[str, ...] = (), search: str = "") -> bytes:
    """Compile a library that has no name of its own: loaders know it by that of its file."""
    options = [f"-Wl,-rpath,{search}", "-Wl,--disable-new-dtags"] if search else []
    with TemporaryDirectory() as folder:
        needed = [build_library(Path(folder, name)) for name in needs]
        library = build_library(Path(folder, "library"), source, needs=needed, options=[*options, "-Wl,-soname="])
        return library.read_bytes()


def import_torch(python: Path, variables: dict[str, str]) -> tuple[str, list[str]]:
    """What the loader says to a real `import torch`, and which files of the environment are loaded then."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "PYTHON"))} | variables
    done = subprocess.run([python, "-c", _ASK], check=True, capture_output=True, text=True, env=environ)
    words, loaded = json.loads(done.stdout.splitlines()[-1])
    return words, loaded
