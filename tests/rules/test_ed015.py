"""ED015: files that an installer recorded are gone."""

from envdoctor.model.loading import Loader, LoadFailure, LoadFault
from envdoctor.rules.ed015_missing_files import missing_files
from tests.builders import SITE_PACKAGES, a_damaged_installation, a_distribution, a_torch, an_environment

CUBLAS = a_damaged_installation(
    "nvidia-cublas-cu12", version="12.4.5.8", gone=("nvidia/cublas/lib/libcublas.so.12",), gone_count=1, recorded=3
)


def test_names_the_files_and_installs_the_same_release() -> None:
    [finding] = missing_files(damaged_installations=(a_damaged_installation(),), environment=an_environment())

    assert finding.message == "2 of 32 modules and libraries of `opencv-python` 4.8.1.78 are gone"
    assert [one.value for one in finding.evidence] == [
        "cv2/__init__.py is gone",
        "cv2/cv2.abi3.so is gone",
        SITE_PACKAGES,
    ]
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/opt/env/bin/python -m pip install --force-reinstall --no-deps opencv-python==4.8.1.78",
    )


def test_leaves_a_library_that_the_loader_misses_to_its_rules() -> None:
    failure = LoadFailure(
        words="libcublas.so.12: cannot open shared object file: No such file or directory",
        fault=LoadFault.LIBRARY,
        file=f"{SITE_PACKAGES}/torch/lib/libtorch_cuda.so",
        name="libcublas.so.12",
    )
    loader = Loader(
        library_path=(), preload=(), glibc="2.35", torch=failure, torch_process=(), overridden=(), asked=1, failed=()
    )

    assert missing_files(damaged_installations=(CUBLAS,))
    assert not missing_files(damaged_installations=(CUBLAS,), loader=loader)
    assert missing_files(damaged_installations=(a_damaged_installation(),), loader=loader)


def test_leaves_doubled_metadata_to_the_rule_about_them() -> None:
    old, new = a_distribution("torch", "2.6.0"), a_distribution("torch", "2.8.0")
    damage = a_damaged_installation("torch", metadata_path=old.metadata_path)

    assert not missing_files(damaged_installations=(damage,), distributions=(old, new))
    assert missing_files(damaged_installations=(damage,), distributions=(old,))


def test_leaves_a_torch_that_is_gone_to_the_rule_about_it() -> None:
    torch = a_torch(has_init=False)
    damage = a_damaged_installation("torch", metadata_path=torch.distribution)

    assert not missing_files(damaged_installations=(damage,), torch=torch)


def test_is_silent_where_nothing_is_gone() -> None:
    assert not missing_files(damaged_installations=(), distributions=(a_distribution(),))
