"""NVRTC of one CUDA release takes the built-in functions of another."""

import posixpath

from envdoctor.model.facts import CupyBuild, Gpu, NvrtcBuiltins, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.visibility import find_visible_gpus
from envdoctor.rules._load_remedies import lengthen_library_path

# Before LD_LIBRARY_PATH: what is put there does not change what is taken.
_FIRST = frozenset({"RPATH", "already loaded"})
# Whoever puts these in front of LD_LIBRARY_PATH overrides far more than this library.
_OF_SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


@rule("ED408", Severity.WARNING, "NVRTC finds the built-in functions of another CUDA release")
def mixed_nvrtc(cupy: CupyBuild, gpus: tuple[Gpu, ...], variables: tuple[Variable, ...] = ()) -> Conclusions:
    """
    ## What it means
    NVRTC, the compiler that CuPy builds its kernels with, opens a second library when it compiles: the built-in
    functions of CUDA, `libnvrtc-builtins.so`. It has to be of its own release. With that of another, `import cupy` and
    part of the operations succeed, and others fail. NVRTC 10.2 with the functions of 11.8 compiles small kernels for
    compute_70, and none for compute_30, which 11.8 no longer knows: `nvrtc: error: failed to load builtins for
    compute_30`. A larger kernel, that of `cupy.all`, was reported to fail beside 11.6: `JitifyException: Runtime
    compilation failed`.

    ## How envdoctor knows
    It reads in the file of NVRTC which name it opens, follows the dynamic loader to the file that it finds for that
    name, and compares the releases. That of NVRTC stands in the name that it opens or in its own, that of the built-in
    functions in the name that the library gives itself (SONAME), or in that of the file behind all links.

    ## Why it happens
    Up to CUDA 10.2, NVRTC asks for `libnvrtc-builtins.so`, which every toolkit has. LD_LIBRARY_PATH, or the loader's
    cache, leads to a second toolkit before that of NVRTC. Later ones ask for the file of their release by name; there
    somebody linked that name to the file of another release, because the right one was missing.

    ## How to fix it
    Keep one toolkit: take the folder of the other one off LD_LIBRARY_PATH, or put that of NVRTC in front of it. Or
    install the CuPy for the other toolkit. Replace a link to another release by the file of the right one.

    ## When to ignore it
    When the job sets LD_LIBRARY_PATH, or loads a module of the cluster that does; or when everything that the program
    calls is seen to compile on the card that it runs on.
    """
    if not find_visible_gpus(gpus, variables).gpus:
        yield NotApplicable("no GPU is visible")
        return
    builtins = cupy.builtins
    if builtins is None or builtins.builtins_cuda == builtins.nvrtc_cuda:
        return
    yield Finding(
        message=f"{cupy.distribution} {cupy.version} compiles with NVRTC of CUDA {builtins.nvrtc_cuda}, "
        f"which takes the built-in functions of CUDA {builtins.builtins_cuda}",
        evidence=(
            Evidence(source=builtins.nvrtc, value=f"opens {builtins.name} by name"),
            Evidence(source=builtins.found_through, value=f"{builtins.path}, of CUDA {builtins.builtins_cuda}"),
        ),
        remedy=_put_right(builtins),
    )


def _put_right(builtins: NvrtcBuiltins) -> Remedy:
    if not builtins.right or builtins.found_through in _FIRST:
        return Remedy(
            summary=f"bring {builtins.name} of CUDA {builtins.nvrtc_cuda} in the place of {builtins.path}, "
            "or install the CuPy for the CUDA that is whole"
        )
    folder = posixpath.dirname(builtins.right)
    is_of_system = f"{folder}/".startswith(_OF_SYSTEM)
    if is_of_system and builtins.found_through == "LD_LIBRARY_PATH":
        other = posixpath.dirname(builtins.path)
        return Remedy(summary=f"keep the loader from {other}: take it off LD_LIBRARY_PATH where the job sets it")
    return Remedy(
        summary=f"let the loader find {builtins.right} first",
        commands=() if is_of_system else (lengthen_library_path(folder),),
    )
