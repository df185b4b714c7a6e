"""The environment variables that bear on GPUs, Python and builds, by an allow-list: secrets live in variables too."""

import os
import re
from collections.abc import Mapping

from envdoctor.model.facts import Variable

_NAMES = frozenset(
    {
        # the environment that is active
        "CONDA_DEFAULT_ENV",
        "CONDA_PREFIX",
        "VIRTUAL_ENV",
        # what Python imports
        "PYTHONHOME",
        "PYTHONNOUSERSITE",
        "PYTHONPATH",
        "PYTHONSAFEPATH",
        "PYTHONUSERBASE",
        # what the loader loads
        "LD_BIND_NOW",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        # what builds extensions
        "CC",
        "CFLAGS",
        "CPATH",
        "CXX",
        "CXXFLAGS",
        "DS_SKIP_CUDA_CHECK",
        "FORCE_CUDA",
        "LDFLAGS",
        "LIBRARY_PATH",
        "MAX_JOBS",
        "NVCC_APPEND_FLAGS",
        "NVCC_PREPEND_FLAGS",
        "PATH",
        "TCNN_CUDA_ARCHITECTURES",
        "XDG_CACHE_HOME",
        # the container's share of the driver
        "NVIDIA_DISABLE_REQUIRE",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_VISIBLE_DEVICES",
        # which device a process takes
        "GPU_DEVICE_ORDINAL",
        "HIP_VISIBLE_DEVICES",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "RANK",
        "ROCR_VISIBLE_DEVICES",
        "WORLD_SIZE",
        # how libraries compute
        "BNB_CUDA_VERSION",
        "CONDA_OVERRIDE_CUDA",
        "CUBLAS_WORKSPACE_CONFIG",
        "JAX_PLATFORMS",
        "KMP_DUPLICATE_LIB_OK",
        "MKL_SERVICE_FORCE_INTEL",
        "MKL_THREADING_LAYER",
        "NVIDIA_TF32_OVERRIDE",
        "OMP_NUM_THREADS",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "XLA_FLAGS",
        "XLA_PYTHON_CLIENT_PREALLOCATE",
    }
)
# Families of switches. Not NVIDIA_ as a whole: NVIDIA_API_KEY is the key to a service.
_PREFIXES = (
    "CUDA",  # CUDA_VISIBLE_DEVICES, CUDA_HOME, CUDACXX, CUDAHOSTCXX, ...
    "CUDNN_",
    "CUPY_",
    "DS_BUILD_",
    "FLASH_ATTENTION_",
    "NCCL_",
    "NUMBA_CUDA_",
    "NVIDIA_REQUIRE_",
    "PYTORCH_",
    "TORCH_",
    "TORCHINDUCTOR_",
    "TRITON_",
)
_SLURM = re.compile(r"SLURM_(.*GPU.*|JOB_ID|LOCALID|PROCID|NTASKS|NNODES)")
# A prefix does not keep people from naming a key with it.
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH")


def read_variables(environ: Mapping[str, str] = os.environ) -> tuple[Variable, ...]:
    """Return the variables of the allow-list that are set, by name."""
    return tuple(Variable(name=name, value=environ[name]) for name in sorted(environ) if _is_listed(name))


def _is_listed(name: str) -> bool:
    if name in _NAMES:
        return True
    return (name.startswith(_PREFIXES) or bool(_SLURM.fullmatch(name))) and not _SECRET.search(name)
