import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.model.facts import Distribution, MetadataKind, Unavailable
from envdoctor.model.installation import ContestedProject, DamagedInstallation
from envdoctor.probes.distributions import find_distributions
from envdoctor.probes.environment import find_environment
from envdoctor.probes.records import find_contested_projects, find_damaged_installations
from tests.builders import an_environment
from tests.probes.pythons import find_python, make_venv, site_packages_of
from tests.wheels import install, make_wheel


def find_damage(*distributions: Distribution) -> tuple[DamagedInstallation, ...]:
    found = find_damaged_installations(distributions)
    assert not isinstance(found, Unavailable)
    return found


def recorded(folder: Path, record: str, *, name: str = "pkg", installer: str = "pip") -> Distribution:
    """A distribution with a RECORD, none of whose files are there."""
    dist_info = folder / f"{name}-1.dist-info"
    dist_info.mkdir(parents=True, exist_ok=True)
    (dist_info / "RECORD").write_text(record)
    return Distribution(
        name=name,
        version="1",
        metadata_kind=MetadataKind.DIST_INFO,
        metadata_path=str(dist_info),
        location=str(folder),
        installer=installer,
    )


# --- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.6", "3.10", "3.13"])
def test_what_pip_installed_is_whole_until_a_module_is_deleted(version: str, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv", version)
    wheel = make_wheel(tmp_path, "einops", "0.6", "einops/__init__.py", "einops/layers/torch.py")
    install(find_python(version), "--prefix", tmp_path / "venv", wheel)
    site_packages = site_packages_of(python)
    distributions = find_distributions(find_environment(python=str(python), prefix=""))

    before = find_damage(*distributions)
    (site_packages / "einops" / "layers" / "torch.py").unlink()

    assert before == ()
    assert find_damage(*distributions) == (
        DamagedInstallation(
            distribution="einops",
            version="0.6",
            metadata_path=str(site_packages / "einops-0.6.dist-info"),
            location=str(site_packages),
            gone=("einops/layers/torch.py",),
            gone_count=1,
            recorded=2,
        ),
    )


def test_the_environment_of_these_tests_is_whole() -> None:
    """Whatever a real pip wrote: scripts, bytecode, data, names with spaces."""
    environment = find_environment(python=sys.executable, prefix="")

    assert find_damage(*find_distributions(environment)) == ()


@pytest.mark.parametrize(
    "path", ["pkg/__init__.py", "pkg/_C.cpython-310-x86_64-linux-gnu.so", "pkg.libs/libcudart-1b2c.so.10.2", "six.py"]
)
def test_modules_and_libraries_count(path: str, tmp_path: Path) -> None:
    [damage] = find_damage(recorded(tmp_path, f"a.txt,,1\n{path},sha256=x,500\n"))

    assert damage.gone == (path,)


@pytest.mark.parametrize(
    "line",
    [
        "pkg/__pycache__/__init__.cpython-310.pyc,,",
        "../../../bin/pkg,sha256=x,200",
        "../../../bin/pkg.py,sha256=x,200",
        "/opt/share/pkg.py,sha256=x,200",
        "pkg/data.json,sha256=x,5",
        "pkg/lib/libpkg.a,sha256=x,5",
        "pkg/include/pkg.h,sha256=x,5",
        "pkg-1.dist-info/RECORD.jws,,",
        "pkg-1.dist-info/RECORD.p7s,,",
        "pkg/tests/test_pkg.py,sha256=x,5",
        "tests/__init__.py,sha256=x,5",
        "examples/demo.py,sha256=x,5",
        "docs/conf.py,sha256=x,5",
        "pkg/__init__.py,sha256=e3b0c442,0",  # empty: without it the folder is a package as well
        '"pkg/a,b.py",sha256=x,5',
    ],
)
def test_what_nothing_imports_may_be_missing(line: str, tmp_path: Path) -> None:
    assert find_damage(recorded(tmp_path, line + "\n")) == ()


@pytest.mark.parametrize("stand_in", ["model.pyc", "model.cpython-310-x86_64-linux-gnu.so"])
def test_a_module_may_be_there_in_compiled_form(stand_in: str, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / stand_in).touch()

    assert find_damage(recorded(tmp_path, "pkg/model.py,sha256=x,500\n")) == ()


@pytest.mark.parametrize("installer", ["conda", "debian", "rpm"])
def test_those_who_repackage_move_files(installer: str, tmp_path: Path) -> None:
    distribution = recorded(tmp_path, "torch/lib/libtorch_cpu.so,sha256=x,500\n", installer=installer)

    assert find_damage(distribution) == ()


@pytest.mark.parametrize(("folder", "whole"), [("dist-packages", True), ("site-packages", False)])
def test_packages_of_debian_name_no_installer(folder: str, whole: bool, tmp_path: Path) -> None:
    """python3-zmq of Debian 12 has no zmq/backend/cffi, and lists it."""
    distribution = recorded(tmp_path / folder, "zmq/backend/cffi/_poll.py,sha256=x,500\n", installer="")

    assert (find_damage(distribution) == ()) is whole


def test_a_wrong_hash_is_no_damage(tmp_path: Path) -> None:
    """https://github.com/pytorch/pytorch/issues/97153: the official wheel of torch 1.11.0 for Python 3.8."""
    distribution = recorded(tmp_path, "torch/version.py,sha256=wrong,9999\ntorch-1.dist-info/METADATA,sha256=wrong,1\n")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").touch()

    assert find_damage(distribution) == ()


def test_the_declaration_of_a_shared_namespace_goes_with_whoever_is_removed(tmp_path: Path) -> None:
    declaring = recorded(tmp_path, "google/__init__.py,sha256=x,56\n", name="protobuf")
    sharing = recorded(tmp_path, "google/auth/data.json,sha256=x,5\n", name="google-auth")

    assert find_damage(declaring, sharing) == ()
    assert find_damage(declaring)[0].gone == ("google/__init__.py",)


def test_a_package_that_two_share_is_lost_with_its_code(tmp_path: Path) -> None:
    """One of the distributions of OpenCV was removed, and took the files of the other along."""
    first = recorded(tmp_path, "cv2/__init__.py,sha256=x,6612\n", name="opencv-python")
    second = recorded(tmp_path, "cv2/__init__.py,sha256=x,6612\n", name="opencv-python-headless")

    assert [damage.distribution for damage in find_damage(first, second)] == ["opencv-python", "opencv-python-headless"]


def test_a_namespace_is_shared_by_what_lies_further_down(tmp_path: Path) -> None:
    declaring = recorded(tmp_path, "google/cloud/__init__.py,sha256=x,56\n", name="google-cloud-core")
    sharing = recorded(tmp_path, "google/cloud/storage/client/retry.json,sha256=x,5\n", name="google-cloud-storage")
    namesake = recorded(tmp_path, "google/cloud_storage/retry.json,sha256=x,5\n", name="other")

    assert find_damage(declaring, sharing) == ()
    assert [damage.distribution for damage in find_damage(declaring, namesake)] == ["google-cloud-core"]


def test_a_size_that_is_no_number_of_bytes_is_none(tmp_path: Path) -> None:
    """Python makes no number of more than 4,300 digits."""
    [damage] = find_damage(recorded(tmp_path, f"pkg/model.py,sha256=x,{'9' * 5000}\n"))

    assert damage.gone == ("pkg/model.py",)


def test_of_many_files_the_first_are_named(tmp_path: Path) -> None:
    lines = "".join(f"pkg/m{number:03}.py,sha256=x,9\n" for number in range(100))
    [damage] = find_damage(recorded(tmp_path, lines))

    assert (damage.gone[0], len(damage.gone), damage.gone_count, damage.recorded) == ("pkg/m000.py", 12, 100, 100)


def test_a_folder_that_this_user_cannot_list_tells_nothing(unprivileged: Path) -> None:
    distribution = recorded(unprivileged, "pkg/model.py,sha256=x,500\n")
    (unprivileged / "pkg").mkdir(mode=0)

    assert find_damage(distribution) == ()


@given(content=st.binary(max_size=200))
def test_any_record_is_read(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    distribution = recorded(folder, "")
    Path(distribution.metadata_path, "RECORD").write_bytes(content)

    assert len(find_damage(distribution)) <= 1


def test_without_distributions_there_is_the_reason() -> None:
    reason = Unavailable("the disk is gone")

    assert find_damaged_installations(reason) is reason
    assert find_contested_projects(an_environment(), reason) is reason


# --- two owners --------------------------------------------------------------------------------------------------
# Made by hand after conda's documented layout: conda-meta/NAME-VERSION-BUILD.json with the `files` of the package.


def contested(prefix: Path, record: str, files: str, pip_version: str, pip_record: str) -> tuple[ContestedProject, ...]:
    site_packages = prefix / "lib" / "python3.9" / "site-packages"
    name = "torch" if record.startswith("pytorch") else record.partition("-")[0]
    dist_info = site_packages / f"{name}-{pip_version}.dist-info"
    dist_info.mkdir(parents=True)
    (dist_info / "METADATA").write_text(f"Name: {name}\nVersion: {pip_version}\n")
    (dist_info / "INSTALLER").write_text("pip\n")
    (dist_info / "RECORD").write_text(pip_record)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / f"{record}.json").write_text(files)
    environment = find_environment(python="", prefix=str(prefix))
    found = find_contested_projects(environment, find_distributions(environment))
    assert not isinstance(found, Unavailable)
    return found


def test_another_version_beside_the_record_of_conda_is_contested(tmp_path: Path) -> None:
    """https://github.com/huggingface/transformers/issues/29022: torch 2.1.0 of conda, 2.2.0 of pip."""
    library = tmp_path / "lib" / "python3.9" / "site-packages" / "torch" / "lib" / "libtorch_old.so"
    library.parent.mkdir(parents=True)
    for path in (library, library.with_name("libtorch.so"), library.with_name("notes.txt")):
        path.touch()
    place = "lib/python3.9/site-packages/torch/lib"
    names = ("libtorch_old.so", "libtorch.so", "notes.txt", "libgone.so")
    listed = json.dumps({"files": [*(f"{place}/{name}" for name in names), "lib/libmkl.so.2", 7]})

    [project] = contested(
        tmp_path, "pytorch-2.1.0-py3.9_cuda12.1_cudnn8.9.2_0", listed, "2.2.0", "torch/lib/libtorch.so,sha256=x,5\n"
    )

    assert (project.name, project.conda_version, project.version, project.installer) == (
        "torch",
        "2.1.0",
        "2.2.0",
        "pip",
    )
    assert (project.survivors, project.survivor_count) == ((f"{place}/libtorch_old.so",), 1)


def test_the_same_version_is_not_contested(tmp_path: Path) -> None:
    assert contested(tmp_path, "numpy-1.26.0-py39h_0", "{}", "1.26.0", "") == ()


def test_a_conda_package_that_is_none_of_pythons_is_no_other_version(tmp_path: Path) -> None:
    """conda's flatbuffers is a library in C++."""
    assert contested(tmp_path, "flatbuffers-23.5.26-h59595ed_1", "{}", "24.3.25", "") == ()


@pytest.mark.parametrize("files", ["", "[]", '{"files": 3}', "\x00"])
def test_a_record_of_conda_that_cannot_be_read_tells_of_no_survivors(files: str, tmp_path: Path) -> None:
    [project] = contested(tmp_path, "numpy-1.21.0-py39h_0", files, "1.26.0", "numpy/__init__.py,sha256=x,5\n")

    assert project.survivors == ()
