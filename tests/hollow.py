"""Real installed environments without their weight: see fixtures/hollow/SOURCES.md."""

import tarfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "fixtures" / "hollow"

TORCH_1_10 = "torch-1.10.2+cu102-cp37m"
TORCH_1_13 = "torch-1.13.1+cu117-cp311"
TORCH_2_7 = "torch-2.7.1+cu126-cp311"
TORCH_2_13_CPU = "torch-2.13.0+cpu-cp311"
TORCH_2_14 = "torch-2.14.1+cu130-cp311"  # with torchvision, bitsandbytes and all that they need

# Extensions alone, to be unpacked beside a torch that they were not built for.
TORCHVISION_0_23 = "torchvision-0.23.0-cp311"  # for torch 2.8
XFORMERS_0_0_28 = "xformers-0.0.28-cp311"  # for torch 2.4
AUTOAWQ_KERNELS_0_0_9 = "autoawq-kernels-0.0.9-cp311"  # for torch 2.5


def unpack(name: str, site_packages: Path) -> Path:
    """Unpack an environment into a site-packages folder: files of gigabytes that take a few megabytes."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(site_packages, filter="data")
    return site_packages
