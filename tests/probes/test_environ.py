"""Which environment variables become facts, and that secrets never do."""

import os

import pytest

from envdoctor.model.facts import Variable
from envdoctor.probes.environ import read_variables


@pytest.mark.parametrize(
    "name",
    [
        "BNB_CUDA_VERSION",
        "CC",
        "CONDA_PREFIX",
        "CUBLAS_WORKSPACE_CONFIG",
        "CUDACXX",
        "CUDAHOSTCXX",
        "CUDA_DEVICE_ORDER",
        "CUDA_HOME",
        "CUDA_MODULE_LOADING",
        "CUDA_VISIBLE_DEVICES",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOCAL_RANK",
        "NCCL_P2P_DISABLE",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_REQUIRE_CUDA",
        "NVIDIA_TF32_OVERRIDE",
        "NVIDIA_VISIBLE_DEVICES",
        "PATH",
        "PYTHONNOUSERSITE",
        "PYTHONPATH",
        "PYTORCH_CUDA_ALLOC_CONF",
        "SLURM_JOB_GPUS",
        "SLURM_JOB_ID",
        "SLURM_STEP_GPUS",
        "TORCH_CUDA_ARCH_LIST",
        "TORCH_EXTENSIONS_DIR",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "TRITON_PTXAS_PATH",
        "VIRTUAL_ENV",
    ],
)
def test_what_bears_on_gpus_and_builds_is_read(name: str) -> None:
    assert read_variables({name: "value"}) == (Variable(name=name, value="value"),)


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY",
        "CUDA_DOWNLOAD_TOKEN",
        "DATABASE_URL",
        "GITHUB_TOKEN",
        "HF_TOKEN",
        "HOME",
        "HOSTNAME",
        "NCCL_SECRET",
        "NVIDIA_API_KEY",
        "PIP_EXTRA_INDEX_URL",
        "SLURM_JOB_USER",
        "SSH_CONNECTION",
        "TORCH_HUB_PASSWORD",
        "TRITON_AUTHORIZATION",
        "USER",
        "WANDB_API_KEY",
        "http_proxy",
    ],
)
def test_secrets_and_names_of_people_are_not(name: str) -> None:
    assert read_variables({name: "hunter2"}) == ()


def test_variables_come_by_name_and_empty_ones_count() -> None:
    """An empty CUDA_VISIBLE_DEVICES hides every GPU; an unset one hides none."""
    found = read_variables({"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": ""})

    assert found == (Variable(name="CUDA_VISIBLE_DEVICES", value=""), Variable(name="NCCL_DEBUG", value="INFO"))


def test_the_variables_of_this_process_are_the_default() -> None:
    assert Variable(name="PATH", value=os.environ["PATH"]) in read_variables()
