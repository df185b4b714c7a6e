"""Versions of drivers, CUDA and PTX as text and as numbers."""

import pytest

from envdoctor.model.versions import CudaVersion, DriverRelease, PtxIsaVersion


def test_a_driver_release_has_a_branch() -> None:
    release = DriverRelease.parse(" 550.54.15\n")

    assert (str(release), release.branch, release.release) == ("550.54.15", 550, (550, 54, 15))


@pytest.mark.parametrize("text", ["", "12.4", "55", "550.", "550.54.15.1.2", "v550", "550.x"])
def test_what_is_no_driver_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a driver release"):
        DriverRelease.parse(text)


@pytest.mark.parametrize(
    ("older", "newer"),
    [("470.82.01", "525.60.13"), ("525.60.13", "525.105.17"), ("550", "550.54.15"), ("535.54.03", "535.161.07")],
)
def test_driver_releases_are_ordered_by_number_not_by_text(older: str, newer: str) -> None:
    assert DriverRelease.parse(older) < DriverRelease.parse(newer)


@pytest.mark.parametrize(
    ("text", "version"), [("12.4", (12, 4)), ("11.8.89", (11, 8)), ("13", (13, 0)), (" 10.2 ", (10, 2))]
)
def test_a_cuda_version_is_major_and_minor(text: str, version: tuple[int, int]) -> None:
    assert CudaVersion.parse(text) == version


@pytest.mark.parametrize("text", ["", "cu118", "12.", "550.54", "12.4rc1"])
def test_what_is_no_cuda_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a CUDA version"):
        CudaVersion.parse(text)


@pytest.mark.parametrize(("number", "text", "tag"), [(12040, "12.4", "cu124"), (9020, "9.2", "cu92")])
def test_the_number_of_the_driver_is_a_cuda_version(number: int, text: str, tag: str) -> None:
    version = CudaVersion.from_number(number)

    assert (str(version), version.tag) == (text, tag)


@pytest.mark.parametrize("number", [-1, 0, 999, 100_000])
def test_what_is_no_number_of_a_cuda_version_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="not the number of a CUDA version"):
        CudaVersion.from_number(number)


@pytest.mark.parametrize("text", ["", "x", "550.", "550.54.15.1.2", "550.1234567890"])
def test_what_is_no_driver_release_cannot_be_made(text: str) -> None:
    with pytest.raises(ValueError, match="not a driver release"):
        DriverRelease(text)


def test_a_ptx_version_is_read_and_written() -> None:
    assert str(PtxIsaVersion.parse("8.5")) == "8.5"


@pytest.mark.parametrize("text", ["", "8", "8.5.1", "isa 8.5"])
def test_what_is_no_ptx_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a PTX ISA version"):
        PtxIsaVersion.parse(text)
