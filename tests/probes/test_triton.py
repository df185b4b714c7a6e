"""The ptxas that triton starts: which one it is, and what it accepts."""

from functools import partial
from pathlib import Path

import pytest

from envdoctor.model.arch import format_arch_list
from envdoctor.model.facts import Absence, Distribution, Environment, SearchEntry, TritonBuild, Unavailable, Variable
from envdoctor.probes.triton import read_triton_build
from tests.builders import a_distribution, an_environment
from tests.compiler import build_library, needs_compiler

NEWER = "backends/nvidia/bin"
OLDER = "third_party/cuda/bin"


def environment_of(site: Path) -> Environment:
    return an_environment(search_path=(SearchEntry(path=str(site), origin="site-packages"),))


def read(site: Path, *distributions: Distribution, **variables: str) -> TritonBuild:
    named = tuple(Variable(name=name, value=value) for name, value in variables.items())
    triton = read_triton_build(environment_of(site), distributions, named)
    assert isinstance(triton, TritonBuild)
    return triton


def build_ptxas(path: Path, release: str, targets: str) -> Path:
    """A library with the texts of a ptxas: the names of its targets, and its release."""
    names = ", ".join(f'"compute_{target}", "lto_{target}"' for target in targets.split())
    return build_library(
        path, f'const char* t[] = {{{names}, "Cuda compilation tools, release {release}, V{release}.1"}};'
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text(
        '"""isort:skip_file"""\n__version__ = \'3.1.0\'\nfrom .runtime import x\n'
    )
    return tmp_path


def targets_of(triton: TritonBuild) -> str:
    assert isinstance(triton.ptxas_archs, tuple)
    return format_arch_list(triton.ptxas_archs)


def test_without_triton_there_is_nothing_to_judge(tmp_path: Path) -> None:
    triton = read_triton_build(environment_of(tmp_path), (), ())

    assert triton == Unavailable("triton is not installed", Absence.NOT_APPLICABLE)


@needs_compiler
@pytest.mark.parametrize("folder", [NEWER, OLDER])
def test_the_bundled_ptxas_tells_its_release_and_targets(site: Path, folder: str) -> None:
    ptxas = build_ptxas(site / "triton" / folder / "ptxas", "12.4", "80 89 90 90a")

    triton = read(site)

    assert triton.ptxas == str(ptxas)
    assert str(triton.ptxas_version) == "12.4"
    assert targets_of(triton) == "sm_80 sm_89 sm_90 sm_90a"


@needs_compiler
def test_from_blackwell_on_the_second_ptxas_counts(site: Path) -> None:
    # As in triton 3.3 and later: the first one may know Blackwell too, but is not asked.
    build_ptxas(site / "triton" / NEWER / "ptxas", "12.9", "50 90a 100 101a 120")
    build_ptxas(site / "triton" / NEWER / "ptxas-blackwell", "13.4", "75 90 100a 121f")

    assert targets_of(read(site)) == "sm_50 sm_90a sm_100a sm_121f"


@needs_compiler
def test_the_variables_replace_both(site: Path) -> None:
    build_ptxas(site / "triton" / NEWER / "ptxas", "12.4", "80")
    build_ptxas(site / "triton" / NEWER / "ptxas-blackwell", "12.8", "100")
    other = build_ptxas(site / "other", "13.0", "86 121")
    second = build_ptxas(site / "second", "13.0", "89 103")

    triton = read(site, TRITON_PTXAS_PATH=str(other), TRITON_PTXAS_BLACKWELL_PATH=str(second))

    assert triton.ptxas == str(other)
    assert targets_of(triton) == "sm_86 sm_103"


@needs_compiler
def test_triton_without_a_second_ptxas_does_not_ask_for_one(site: Path) -> None:
    build_ptxas(site / "triton" / NEWER / "ptxas", "12.4", "80")
    second = build_ptxas(site / "second", "13.0", "103")

    assert targets_of(read(site, TRITON_PTXAS_BLACKWELL_PATH=str(second))) == "sm_80"


@needs_compiler
def test_a_variable_that_names_nothing_is_passed_over(site: Path) -> None:
    ptxas = build_ptxas(site / "triton" / NEWER / "ptxas", "12.4", "80")

    assert read(site, TRITON_PTXAS_PATH="/nowhere/ptxas").ptxas == str(ptxas)


@needs_compiler
def test_the_ptxas_of_torch_comes_before_the_bundled_one(site: Path) -> None:
    build_ptxas(site / "triton" / NEWER / "ptxas", "12.4", "80")
    of_torch = build_ptxas(site / "torch" / "bin" / "ptxas", "12.8", "120")

    assert read(site).ptxas == str(of_torch)


def test_a_triton_without_ptxas_is_a_fact_with_a_reason(site: Path) -> None:
    triton = read(site)

    reason = Unavailable(f"there is no `ptxas` in `{site / 'triton'}`")
    assert (triton.ptxas, triton.ptxas_version, triton.ptxas_archs) == (reason, reason, reason)


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\nexec /usr/local/cuda/bin/ptxas\n", b"\x7fELF" + bytes(60)])
def test_what_is_no_ptxas_leaves_its_targets_unknown(site: Path, content: bytes) -> None:
    ptxas = site / "triton" / NEWER / "ptxas"
    ptxas.parent.mkdir(parents=True)
    ptxas.write_bytes(content)

    triton = read(site)

    assert triton.ptxas == str(ptxas)
    assert isinstance(triton.ptxas_version, Unavailable)
    assert isinstance(triton.ptxas_archs, Unavailable)


def test_a_damaged_package_without_metadata_has_no_version(site: Path) -> None:
    (site / "triton" / "__init__.py").write_text("__version__ = '3.")

    assert read(site).version == ""


@pytest.mark.parametrize(
    ("distribution", "version"),
    [
        (None, "3.1.0"),
        (partial(a_distribution, "pytorch-triton", "3.1.0+cf34004b8a"), "3.1.0+cf34004b8a"),
        (partial(a_distribution, "triton-model-analyzer", "1.2"), "3.1.0"),
    ],
)
def test_the_version_is_that_of_the_metadata_or_of_the_package(
    site: Path, distribution: "partial[Distribution] | None", version: str
) -> None:
    distributions = () if distribution is None else (distribution(location=str(site)),)

    assert read(site, *distributions).version == version
