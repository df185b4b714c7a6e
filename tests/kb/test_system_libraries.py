"""Which package of Debian and Ubuntu has a library that wheels expect of the system."""

import pytest

from envdoctor.kb import KnowledgeBase


@pytest.mark.parametrize(
    ("library", "package"),
    [
        ("libGL.so.1", "libgl1"),
        ("libgthread-2.0.so.0", "libglib2.0-0"),
        ("libglib-2.0.so.0", "libglib2.0-0"),
        ("libSM.so.6", "libsm6"),
        ("libXrender.so.1", "libxrender1"),
        ("libgomp.so.1", "libgomp1"),
        ("libsndfile.so.1", "libsndfile1"),
        ("libOpenCL.so.1", "ocl-icd-libopencl1"),
        ("libmpi.so.40", "libopenmpi3"),
        ("libodbc.so.2", "libodbc2"),
    ],
)
def test_a_library_is_found_by_its_soname(kb: KnowledgeBase, library: str, package: str) -> None:
    row = kb.system_library(library)

    assert row is not None
    assert row.package == package


@pytest.mark.parametrize("library", ["libcudart.so.12", "libGL.so", "libgl.so.1", ""])
def test_nothing_is_known_of_other_libraries(kb: KnowledgeBase, library: str) -> None:
    assert kb.system_library(library) is None


def test_a_name_with_a_version_in_it_is_no_name_for_every_release(kb: KnowledgeBase) -> None:
    row = kb.system_library("libavcodec.so.59")

    assert row is not None
    assert row.only_in == "Debian 12"


def test_opencv_has_a_build_without_a_desktop(kb: KnowledgeBase) -> None:
    row = kb.headless("opencv-contrib-python")

    assert row is not None
    assert row.instead == "opencv-contrib-python-headless"
    assert kb.headless("opencv-python-headless") is None
