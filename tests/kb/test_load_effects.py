"""What packages make of libraries that the dynamic loader refuses, asked by the library's path."""

import pytest

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.tables import LoadEffect


@pytest.mark.parametrize(
    ("library", "effect"),
    [
        ("xformers/_C.so", LoadEffect.GOES_ON),
        ("/venv/lib/python3.10/site-packages/xformers/_C.so", LoadEffect.GOES_ON),
        ("onnxruntime/capi/libonnxruntime_providers_cuda.so", LoadEffect.LAZY),
        ("bitsandbytes/libbitsandbytes_cuda118.so", LoadEffect.VARIANT),
        ("open3d/cpu/pybind.cpython-310-x86_64-linux-gnu.so", LoadEffect.IMPORT_FAILS),
        ("open3d/pybind.cpython-311-x86_64-linux-gnu.so", LoadEffect.IMPORT_FAILS),
        ("open3d/cuda/pybind.cpython-310-x86_64-linux-gnu.so", LoadEffect.VARIANT),
        ("open3d/open3d_tf_ops.so", LoadEffect.VARIANT),
    ],
)
def test_a_library_is_known_by_the_end_of_its_path(kb: KnowledgeBase, library: str, effect: LoadEffect) -> None:
    row = kb.load_effect(library)

    assert row is not None
    assert row.effect is effect


def test_torchaudio_opens_what_its_module_needs(kb: KnowledgeBase) -> None:
    module = kb.load_effect("torchaudio/lib/_torchaudio.so", "2.8.0")
    needed = kb.load_effect("torchaudio/lib/libtorchaudio.so", "2.8.0")

    assert module is not None
    assert module.effect is LoadEffect.VARIANT
    assert needed is not None
    assert needed.effect is LoadEffect.IMPORT_FAILS


@pytest.mark.parametrize("library", ["numpy/core/_multiarray_umath.so", "my_xformers/_C.so", "xformers/_C.pyi", ""])
def test_nothing_is_known_of_other_libraries(kb: KnowledgeBase, library: str) -> None:
    assert kb.load_effect(library) is None


@pytest.mark.parametrize(
    ("version", "effect"),
    [
        ("0.23.0+cu128", LoadEffect.IMPORT_FAILS),
        ("0.17.0", LoadEffect.IMPORT_FAILS),
        ("0.16.2", LoadEffect.GOES_ON),
        ("", LoadEffect.GOES_ON),
        ("unknown", LoadEffect.GOES_ON),
    ],
)
def test_the_version_decides_where_packages_changed(kb: KnowledgeBase, version: str, effect: LoadEffect) -> None:
    row = kb.load_effect("torchvision/_C.so", version)

    assert row is not None
    assert row.effect is effect
