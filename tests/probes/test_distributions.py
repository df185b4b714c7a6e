import importlib.metadata
import io
import json
import os
import subprocess
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor.model.facts import Absence, Distribution, Environment, MetadataKind, SearchEntry, Unavailable
from envdoctor.probes.distributions import find_distributions, normalise
from envdoctor.probes.environment import find_environment
from tests.builders import an_environment
from tests.probes.pythons import find_python, make_prefix, make_venv, site_packages_of

TORCH = "Metadata-Version: 2.1\nName: torch\nVersion: 1.13.1+cu117\nRequires-Dist: numpy\n\nTensors\n"


LONG = "1" * 5000  # Python reads numbers of up to 4300 digits


def searching(*folders: Path, prefix: Path = Path("/nowhere")) -> Environment:
    entries = tuple(SearchEntry(path=str(folder), origin="site-packages") for folder in folders)
    return an_environment(search_path=entries, prefix=str(prefix))


def find(*folders: Path) -> tuple[Distribution, ...]:
    return find_distributions(searching(*folders))


def write(folder: Path, **files: str | bytes) -> Path:
    """Fill a metadata folder; in the names of files `__` stands for the dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content.encode() if isinstance(content, str) else content
        (folder / name.replace("__", ".")).write_bytes(text)
    return folder


# --- against the standard library --------------------------------------------------------------------------------


def test_a_real_environment_is_read_as_importlib_metadata_reads_it() -> None:
    site_packages = sysconfig.get_path("purelib")
    expected = [
        (normalise(each.metadata["Name"]), each.version, each.requires or [])
        for each in importlib.metadata.distributions(path=[site_packages])
    ]

    found = find(Path(site_packages))

    assert sorted((each.name, each.version, list(each.requires)) for each in found) == sorted(expected)
    assert len(found) > 20
    assert {each.installer for each in found} == {"pip"}


@pytest.mark.parametrize(
    "text",
    [
        "six>=1\n",
        "\n[dev]\npytest\n\n[docs]\nsphinx<2\nfuro\n",
        '[:python_version < "3"]\nenum34\n\n[gpu:sys_platform == "linux"]\nx@ https://example.com/x.zip\n',
        "[empty]\n",
        "# comment\n  torch  \n",
    ],
)
def test_the_requirements_of_an_egg_are_those_that_importlib_metadata_makes_of_them(text: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "pkg.egg-info", **{"PKG-INFO": "Name: pkg\nVersion: 1\n", "requires__txt": text})
    expected = importlib.metadata.Distribution.at(folder).requires or []

    [found] = find(tmp_path)

    assert [each.replace(" ;", ";") for each in found.requires] == [each.replace(" ;", ";") for each in expected]


# --- kinds of metadata -------------------------------------------------------------------------------------------


def test_a_wheel_that_pip_installed(tmp_path: Path) -> None:
    metadata = TORCH.replace("\n\n", "\nRequires-Python: >=3.7.0\nRequires-Dist: nvidia-cublas-cu11 (==11.10.3.66)\n\n")
    folder = write(tmp_path / "torch-1.13.1+cu117.dist-info", METADATA=metadata, INSTALLER="pip\n")

    assert find(tmp_path) == (
        Distribution(
            name="torch",
            version="1.13.1+cu117",
            metadata_kind=MetadataKind.DIST_INFO,
            metadata_path=str(folder),
            location=str(tmp_path),
            requires=("numpy", "nvidia-cublas-cu11 (==11.10.3.66)"),
            requires_python=">=3.7.0",
            installer="pip",
        ),
    )


def test_the_single_file_that_distutils_writes(tmp_path: Path) -> None:
    (tmp_path / "crcmod-1.7-py2.7.egg-info").write_text("Metadata-Version: 1.1\nName: crcmod\nVersion: 1.7\n")

    [found] = find(tmp_path)

    assert (found.name, found.version, found.metadata_kind) == ("crcmod", "1.7", MetadataKind.EGG_INFO)
    assert found.requires == ()


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8"])
def test_setup_py_develop_leaves_one_editable_distribution(version: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    repository = tmp_path / "repository"
    run_setup(python, repository, "develop", "--no-deps")

    [found] = find_named("my-repo", python)

    assert (found.version, found.metadata_kind) == ("0.3", MetadataKind.EGG_LINK)
    assert found.editable_root == found.location == str(repository)
    assert found.requires == ('torch>=1.0 ; python_version > "2"',)
    assert found.problems == ()
    assert found.shadowed_by == ""


@pytest.mark.parametrize("version", ["2.7", "3.6"])
@pytest.mark.parametrize("zipped", ["True", "False"])
def test_easy_install_leaves_an_egg_on_the_path(version: str, zipped: str, tmp_path: Path) -> None:
    python = make_prefix(tmp_path / "prefix", version)
    run_setup(python, tmp_path / "repository", "easy_install", "--no-deps", ".", zip_safe=zipped)

    [found] = find_named("my-repo", python)

    assert (found.version, found.metadata_kind) == ("0.3", MetadataKind.EGG_INFO)
    assert found.location.endswith(f"My.Repo-0.3-py{version}.egg")
    assert found.requires == ('torch>=1.0 ; python_version > "2"',)
    assert Path(found.location).is_file() is (zipped == "True")


def find_named(name: str, python: Path) -> list[Distribution]:
    """Find the distributions of that name: Python 2 brings a few of its own."""
    found = find_distributions(find_environment(python=str(python), prefix=""))
    return [each for each in found if each.name == name]


def run_setup(python: Path, repository: Path, *command: str, zip_safe: str = "False") -> None:
    """Run a setup.py with the setuptools of the interpreter that *python* is a copy of."""
    write(
        repository,
        repo__py="",
        setup__py="from setuptools import setup\nsetup(name='My.Repo', version='0.3', py_modules=['repo'], "
        f"install_requires=['torch>=1.0; python_version > \"2\"'], zip_safe={zip_safe})\n",
    )
    tools = site_packages_of(find_python(python.resolve().name.removeprefix("python")))
    if not (tools / "setuptools").is_dir():
        pytest.skip(f"there is no setuptools for {python}")
    subprocess.run(
        [python, "setup.py", "--quiet", *command],
        check=True,
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(tools), "PYTHONNOUSERSITE": "1"},
        capture_output=True,
    )


def test_an_egg_link_to_a_folder_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "fairseq.egg-link").write_text("/gone/fairseq\n.")

    [found] = find(tmp_path)

    assert (found.name, found.metadata_kind) == ("fairseq", MetadataKind.EGG_LINK)
    assert isinstance(found.version, Unavailable)
    assert found.editable_root == "/gone/fairseq"
    assert found.problems == ("`fairseq.egg-link` leads to `/gone/fairseq/fairseq.egg-info`, which does not exist",)


def test_an_egg_link_that_easy_install_pth_does_not_know_is_a_problem(tmp_path: Path) -> None:
    source = tmp_path / "fairseq"
    write(source / "fairseq.egg-info", **{"PKG-INFO": "Name: fairseq\nVersion: 0.12.2\n"})
    (write(tmp_path / "site") / "fairseq.egg-link").write_text(f"{source}\n.")

    [found] = find(tmp_path / "site")

    assert found.version == "0.12.2"
    assert found.problems == (f"`{source}` is not on the search path",)


@pytest.mark.parametrize(
    ("direct_url", "expected", "root"),
    [
        ({"url": "file:///my%20repo", "dir_info": {"editable": True}}, "file:///my%20repo", "/my repo"),
        ({"url": "file:///repo", "dir_info": {}}, "file:///repo", ""),
        ({"url": "https://download.pytorch.org/x.whl", "archive_info": {}}, "https://download.pytorch.org/x.whl", ""),
        (
            {"url": "https://github.com/NVIDIA/apex", "vcs_info": {"vcs": "git", "commit_id": "2386a91"}},
            "git+https://github.com/NVIDIA/apex@2386a91",
            "",
        ),
        ({"url": "file:///a%00b", "dir_info": {"editable": True}}, "file:///a%00b", "/a?b"),
        ({"url": "file://[x/", "dir_info": {"editable": True}}, "", ""),
        ({"no": "url"}, "", ""),
        ([], "", ""),
    ],
)
def test_where_it_was_installed_from_is_told(direct_url: object, expected: str, root: str, tmp_path: Path) -> None:
    write(tmp_path / "torch-1.dist-info", METADATA=TORCH, direct_url__json=json.dumps(direct_url))

    [found] = find(tmp_path)

    assert (found.direct_url, found.editable_root) == (expected, root)


def test_an_origin_that_is_nested_too_deep_is_none(tmp_path: Path) -> None:
    write(tmp_path / "torch-1.dist-info", METADATA=TORCH, direct_url__json="[" * 100_000)

    [found] = find(tmp_path)

    assert (found.version, found.direct_url) == ("1.13.1+cu117", "")


def test_what_a_build_leaves_in_the_source_of_an_editable_is_not_a_second_one(tmp_path: Path) -> None:
    origin = {"url": f"file://{tmp_path}/repo", "dir_info": {"editable": True}}
    write(
        tmp_path / "site" / "pkg-1.dist-info", METADATA="Name: pkg\nVersion: 1\n", direct_url__json=json.dumps(origin)
    )
    write(tmp_path / "repo" / "src" / "pkg.egg-info", **{"PKG-INFO": "Name: pkg\nVersion: 0.9\n"})

    [found] = find(tmp_path / "site", tmp_path / "repo" / "src")

    assert found.version == "1"


def test_the_folder_of_an_import_hook_offers_no_metadata(tmp_path: Path) -> None:
    write(tmp_path / "other.egg-info", **{"PKG-INFO": "Name: other\nVersion: 1\n"})
    environment = an_environment(search_path=(SearchEntry(path=str(tmp_path), origin="editable pkg"),))

    assert find_distributions(environment) == ()


# --- headers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata",
    [
        "Name: torch\nVersion: 1.0\nRequires-Dist: a\nRequires-Dist: b",
        "Name: torch\r\nVersion: 1.0\r\nRequires-Dist: a\r\nRequires-Dist: b\r\n\r\nRequires-Dist: c\r\n",
        "name: torch\nVERSION:1.0\nrequires-dist:a\nRequires-Dist:   b  \n\nVersion: 2.0\nRequires-Dist: c",
        "Name: torch\nLicense: MIT\n        \n        Version: 9\nVersion: 1.0\nRequires-Dist: a\nRequires-Dist:\n b\n",
        "Name: torch\nno header at all\nVersion: 1.0\nRequires-Dist: a\nRequires-Dist: b\n",
    ],
)
def test_headers_are_read_to_the_first_empty_line(metadata: str, tmp_path: Path) -> None:
    write(tmp_path / "torch-1.0.dist-info", METADATA=metadata)

    [found] = find(tmp_path)

    assert (found.name, found.version, found.requires, found.problems) == ("torch", "1.0", ("a", "b"), ())


def test_the_readme_is_not_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "torch-1.13.1.dist-info", METADATA=TORCH)
    os.truncate(folder / "METADATA", 1 << 40)  # a terabyte without content

    [found] = find(tmp_path)

    assert found.version == "1.13.1+cu117"


def test_long_headers_are_read_to_their_end(tmp_path: Path) -> None:
    requires = [f"package-{number}" for number in range(5000)]
    write(
        tmp_path / "torch-1.dist-info",
        METADATA="Name: torch\nVersion: 1\n" + "".join(f"Requires-Dist: {each}\n" for each in requires) + "\nreadme",
    )

    [found] = find(tmp_path)

    assert list(found.requires) == requires


# --- broken metadata ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ("", "METADATA is empty"),
        (" \n\n", "METADATA is empty"),
        ("Name: torch\n", "METADATA names no version"),
        ("Name: torch\nVersion:\n", "METADATA names no version"),
        ("Name: torch\nVersion: 1.x-broken\n", "version `1.x-broken` is not one (PEP 440)"),
        pytest.param(f"Name: torch\nVersion: {LONG}\n", f"version `{LONG}` is not one (PEP 440)", id="long version"),
        (b"\x00\x01\x02\xff\xfe", "METADATA is not UTF-8"),
    ],
)
def test_damaged_metadata_is_a_distribution_with_a_problem(metadata: str | bytes, problem: str, tmp_path: Path) -> None:
    write(tmp_path / "torch-1.12.1+cu116.dist-info", METADATA=metadata)

    [found] = find(tmp_path)

    assert found.name == "torch"
    assert isinstance(found.version, Unavailable)
    assert problem in found.problems


def test_headers_without_an_end_are_read_in_part_and_a_problem(tmp_path: Path) -> None:
    folder = write(tmp_path / "torch-1.dist-info", METADATA="Name: torch\nVersion: 1.0\nSummary: ")
    os.truncate(folder / "METADATA", 1 << 40)

    [found] = find(tmp_path)

    assert (found.version, found.problems) == ("1.0", ("METADATA was read to its first 4 MB",))


@pytest.mark.parametrize("is_there", [True, False])
def test_an_editable_installation_tells_whether_its_source_is_gone(is_there: bool, tmp_path: Path) -> None:
    source = tmp_path / "repository"
    if is_there:
        source.mkdir()
    origin = json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}})
    write(tmp_path / "site" / "mmdet-2.25.dist-info", METADATA="Name: mmdet\nVersion: 2.25\n", direct_url__json=origin)
    (tmp_path / "site" / "mmcv.egg-link").write_text(f"{tmp_path}/gone\n.")
    link, wheel = find(tmp_path / "site")

    assert link.source_is_gone
    assert wheel.source_is_gone is not is_there


def test_a_version_that_is_none_was_read_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "pytz-2004d.dist-info", METADATA="Name: pytz\nVersion: 2004-d-x\n")
    write(tmp_path / "torch-1.dist-info", REQUESTED="")
    odd, broken = find(tmp_path)

    assert isinstance(odd.version, Unavailable)
    assert odd.version.absence is Absence.NOT_APPLICABLE
    assert isinstance(broken.version, Unavailable)
    assert broken.version.absence is Absence.UNREADABLE


def test_a_dist_info_with_only_requested_is_broken(tmp_path: Path) -> None:
    """python/cpython#100666: `importlib.metadata.version("torch")` is None."""
    write(tmp_path / "torch-1.12.1+cu116.dist-info", REQUESTED="")
    write(tmp_path / "torch-1.13.1+cu116.dist-info", METADATA=TORCH, REQUESTED="")

    broken, whole = find(tmp_path)

    assert broken.version == Unavailable("METADATA is missing")
    assert "METADATA is missing" in broken.problems
    assert whole.version == "1.13.1+cu117"
    doubled = "recorded 2 times: torch-1.12.1+cu116.dist-info, torch-1.13.1+cu116.dist-info"
    assert doubled in broken.problems
    assert doubled in whole.problems


def test_text_that_is_not_utf_8_costs_nothing_but_a_problem(tmp_path: Path) -> None:
    metadata = "Name: old\nVersion: 1.0\nAuthor: François\nRequires-Dist: numpy\n\n".encode("latin-1")
    write(tmp_path / "old-1.0.dist-info", METADATA=metadata)

    [found] = find(tmp_path)

    assert (found.version, found.requires, found.problems) == ("1.0", ("numpy",), ("METADATA is not UTF-8",))


@pytest.mark.parametrize("name", ["~orch", "~orch-1.13.1.dist-info", "~~rch", "~-rch"])
def test_what_an_interrupted_pip_leaves_is_a_leftover(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, METADATA=TORCH)

    [found] = find(tmp_path)

    assert (found.name, found.metadata_kind) == (name, MetadataKind.LEFTOVER)
    assert found.problems == ("left by an installation or removal that did not finish",)


def test_a_folder_in_the_place_of_a_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "torch-1.dist-info" / "METADATA").mkdir(parents=True)

    [found] = find(tmp_path)

    assert found.problems == ("METADATA: Is a directory",)


def test_a_pipe_in_the_place_of_a_file_does_not_hold_up(tmp_path: Path) -> None:
    os.mkfifo(write(tmp_path / "torch-1.dist-info") / "METADATA")

    [found] = find(tmp_path)

    assert found.problems == ("METADATA: not a regular file",)


def test_loops_of_links_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "torch-1.dist-info").symlink_to("torch-1.dist-info")
    (tmp_path / "numpy.egg-info").symlink_to("numpy.egg-info")
    (tmp_path / "loop").symlink_to("loop")

    numpy, torch = find(tmp_path, tmp_path / "loop")

    assert numpy.problems == ("numpy.egg-info: Too many levels of symbolic links",)
    assert torch.problems == ("METADATA: Too many levels of symbolic links",)


def test_a_folder_that_was_deleted_in_between_is_empty(tmp_path: Path) -> None:
    assert find(tmp_path / "deleted") == ()


def _zip(**changes: int) -> bytes:
    """An egg in which each of the offsets has another byte than it should."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("EGG-INFO/PKG-INFO", "Name: torch\nVersion: 1\n" * 10)
    damaged = bytearray(content.getvalue())
    for place, value in changes.items():
        damaged[damaged.index(b"PK\x01\x02") + int(place.removeprefix("_"))] = value
    return bytes(damaged)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"PK\x03\x04 and no more", id="cut off"),
        pytest.param(_zip(_8=1), id="encrypted"),
        pytest.param(_zip(_10=99), id="compressed by an unknown method"),
        pytest.param(_zip(_42=200), id="a member that begins elsewhere"),
        pytest.param(_zip().replace(b"\xf3K\xcc", b"\xff\xff\xff"), id="damaged inside"),
    ],
)
def test_a_damaged_egg_is_no_distribution(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "torch-1-py2.7.egg").write_bytes(content)

    assert find(tmp_path / "torch-1-py2.7.egg") == ()


def test_an_egg_without_metadata_has_a_problem(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "torch-1-py2.7.egg", "w") as archive:
        archive.writestr("torch.py", "")

    [found] = find(tmp_path / "torch-1-py2.7.egg")

    assert (found.name, found.problems) == ("torch", ("PKG-INFO is empty",))


# --- several folders ---------------------------------------------------------------------------------------------


def test_the_same_name_later_on_the_path_is_shadowed(tmp_path: Path) -> None:
    first = write(tmp_path / "user" / "h5py-3.1.0.dist-info", METADATA="Name: h5py\nVersion: 3.1.0\n")
    write(tmp_path / "env" / "H5Py-2.10.0.dist-info", METADATA="Name: H5Py\nVersion: 2.10.0\n")

    winner, shadowed = find(tmp_path / "user", tmp_path / "env")

    assert winner.shadowed_by == ""
    assert (shadowed.version, shadowed.shadowed_by) == ("2.10.0", str(first))
    assert winner.problems == shadowed.problems == ()


def test_a_folder_that_two_entries_lead_to_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "lib" / "torch-1.dist-info", METADATA=TORCH)
    (tmp_path / "lib64").symlink_to("lib")

    [found] = find(tmp_path / "lib64", tmp_path / "lib")

    assert found.location == str(tmp_path / "lib64")


def test_distributions_come_in_the_order_of_the_real_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "extra"))
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    monkeypatch.delenv("PYTHONNOUSERSITE", raising=False)
    python = make_venv(tmp_path / "venv", "3.8", "--system-site-packages")
    places = [tmp_path / "extra", site_packages_of(python), tmp_path / "user" / "lib" / "python3.8" / "site-packages"]
    for number, place in enumerate(places):
        write(place / f"probe-{number}.dist-info", METADATA=f"Name: probe\nVersion: {number}\n")

    found = find_distributions(find_environment(python=str(python), prefix=""))

    assert [each.version for each in found if each.name == "probe"] == ["0", "1", "2"]


# --- conda -------------------------------------------------------------------------------------------------------
# Made by hand after conda's documented layout: conda-meta/NAME-VERSION-BUILD.json with the `files` of the package.


def make_conda(prefix: Path, records: dict[str, list[str]]) -> Path:
    """Write the records of a conda environment; return its site-packages."""
    site_packages = prefix / "lib" / "python3.8" / "site-packages"
    site_packages.mkdir(parents=True)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta" / "history").touch()
    for record, files in records.items():
        listed = [f"lib/python3.8/site-packages/{file}" for file in files]
        (prefix / "conda-meta" / f"{record}.json").write_text(json.dumps({"files": listed}))
    return site_packages


def find_in_conda(prefix: Path, site_packages: Path) -> dict[tuple[str, MetadataKind], Distribution]:
    found = find_distributions(searching(site_packages, prefix=prefix))
    return {(each.name, each.metadata_kind): each for each in found}


def test_a_conda_package_and_its_metadata_are_one_distribution(tmp_path: Path) -> None:
    site_packages = make_conda(tmp_path, {"numpy-1.21.2-py38h20f2e39_0": ["numpy-1.21.2.dist-info/METADATA"]})
    write(site_packages / "numpy-1.21.2.dist-info", METADATA="Name: numpy\nVersion: 1.21.2\n", INSTALLER="conda")

    found = find_in_conda(tmp_path, site_packages)

    [numpy] = found.values()
    assert (numpy.metadata_kind, numpy.installer, numpy.build) == (MetadataKind.DIST_INFO, "conda", "py38h20f2e39_0")


def test_a_conda_package_of_another_name_is_found_by_its_files(tmp_path: Path) -> None:
    site_packages = make_conda(
        tmp_path,
        {
            "pytorch-1.9.0-py3.8_cuda11.1_cudnn8.0.5_0": ["torch-1.9.0-py3.8.egg-info/PKG-INFO", "torch/version.py"],
            "torchvision-0.10.0-py38_cu111": ["torchvision/version.py"],
        },
    )
    write(site_packages / "torch-1.9.0-py3.8.egg-info", **{"PKG-INFO": "Name: torch\nVersion: 1.9.0\n"})

    found = find_in_conda(tmp_path, site_packages)

    torch = found["torch", MetadataKind.EGG_INFO]
    assert (torch.installer, torch.build) == ("conda", "py3.8_cuda11.1_cudnn8.0.5_0")
    assert found.keys() == {("torch", MetadataKind.EGG_INFO), ("torchvision", MetadataKind.CONDA_META)}


def test_a_conda_package_without_python_metadata_is_a_distribution_of_its_own(tmp_path: Path) -> None:
    site_packages = make_conda(tmp_path, {"cudatoolkit-11.1.74-h6bb024c_0": [], "_libgcc_mutex-0.1-main": []})

    found = find_in_conda(tmp_path, site_packages)

    toolkit = found["cudatoolkit", MetadataKind.CONDA_META]
    assert (toolkit.version, toolkit.build, toolkit.installer) == ("11.1.74", "h6bb024c_0", "conda")
    assert toolkit.location == str(tmp_path)
    assert toolkit.problems == ()


def test_a_distribution_that_pip_laid_over_one_of_conda_is_told_apart(tmp_path: Path) -> None:
    site_packages = make_conda(tmp_path, {"numpy-1.21.2-py38h20f2e39_0": []})
    write(site_packages / "numpy-1.24.4.dist-info", METADATA="Name: numpy\nVersion: 1.24.4\n", INSTALLER="pip")

    found = find_in_conda(tmp_path, site_packages)

    assert found["numpy", MetadataKind.DIST_INFO].installer == "pip"
    assert found["numpy", MetadataKind.DIST_INFO].build == ""
    recorded = found["numpy", MetadataKind.CONDA_META]
    assert recorded.version == "1.21.2"
    assert recorded.problems == ("`numpy-1.24.4.dist-info` in its place tells of pip",)
    assert recorded.shadowed_by == ""


def test_a_package_of_the_user_site_is_not_condas(tmp_path: Path) -> None:
    site_packages = make_conda(tmp_path / "env", {"numpy-1.21.2-py38_0": ["numpy-1.21.2.dist-info/METADATA"]})
    user = write(tmp_path / "user" / "numpy-1.21.2.dist-info", METADATA="Name: numpy\nVersion: 1.21.2\n")
    write(site_packages / "numpy-1.21.2.dist-info", METADATA="Name: numpy\nVersion: 1.21.2\n", INSTALLER="conda")

    first, second = find_distributions(searching(tmp_path / "user", site_packages, prefix=tmp_path / "env"))

    assert (first.metadata_path, first.build) == (str(user), "")
    assert (second.build, second.shadowed_by) == ("py38_0", str(user))


def test_a_package_that_conda_recorded_twice_is_a_problem(tmp_path: Path) -> None:
    site_packages = make_conda(tmp_path, {"cudnn-8.0-h_0": [], "cudnn-8.2-h_0": []})

    found = find_distributions(searching(site_packages, prefix=tmp_path))

    assert [each.problems for each in found] == [("recorded 2 times: cudnn-8.0-h_0.json, cudnn-8.2-h_0.json",)] * 2


def test_files_of_conda_meta_that_are_no_records_are_passed_over(tmp_path: Path) -> None:
    site_packages = make_conda(tmp_path, {})
    for name in ("state", "pinned", "x.json", "a-b.json", "c-1-0.json.bak"):
        (tmp_path / "conda-meta" / name).touch()

    assert find_distributions(searching(site_packages, prefix=tmp_path)) == ()


# --- anything at all ---------------------------------------------------------------------------------------------

FILES = ["METADATA", "PKG-INFO", "requires.txt", "direct_url.json", "INSTALLER"]


@given(
    folder=st.sampled_from(["a-1.dist-info", "a.egg-info", "a-1-py2.7.egg/EGG-INFO"]),
    files=st.dictionaries(st.sampled_from(FILES), st.binary() | st.text().map(str.encode)),
)
def test_any_content_gives_one_distribution(folder: str, files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / folder).mkdir(parents=True)
        for name, content in files.items():
            (Path(place) / folder / name).write_bytes(content)
        egg = Path(place) / "a-1-py2.7.egg"

        [found] = find(egg if egg.exists() else Path(place))

    assert isinstance(found.version, str) or found.problems


@given(content=st.binary())
def test_any_egg_link_gives_one_distribution(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "pkg.egg-link").write_bytes(content)

        [found] = find(Path(place))

    assert found.metadata_kind is MetadataKind.EGG_LINK
