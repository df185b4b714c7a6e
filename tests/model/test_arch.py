"""Architectures and compute capabilities as text."""

import pytest

from envdoctor.model.arch import Arch, CodeKind, ComputeCapability, format_arch_list, parse_arch_list


@pytest.mark.parametrize(("text", "capability"), [("8.6", (8, 6)), (" 12.0 ", (12, 0))])
def test_a_compute_capability_is_read(text: str, capability: tuple[int, int]) -> None:
    assert ComputeCapability.parse(text) == capability


@pytest.mark.parametrize("text", ["", "8", "8.6.1", "sm_86", "8.66", "a.b", "-8.6", "8,6"])
def test_what_is_no_compute_capability_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a compute capability"):
        ComputeCapability.parse(text)


@pytest.mark.parametrize(("number", "text"), [(35, "3.5"), (86, "8.6"), (103, "10.3"), (120, "12.0")])
def test_the_last_digit_of_a_number_is_the_minor(number: int, text: str) -> None:
    capability = ComputeCapability.from_number(number)

    assert (str(capability), capability.number) == (text, number)


@pytest.mark.parametrize(
    ("text", "kind", "capability", "suffix"),
    [
        ("sm_86", CodeKind.SASS, (8, 6), ""),
        ("sm_90a", CodeKind.SASS, (9, 0), "a"),
        ("sm_100f", CodeKind.SASS, (10, 0), "f"),
        ("compute_120", CodeKind.PTX, (12, 0), ""),
        ("lto_80", CodeKind.LTO_IR, (8, 0), ""),
    ],
)
def test_an_architecture_is_read_and_written(
    text: str, kind: CodeKind, capability: tuple[int, int], suffix: str
) -> None:
    arch = Arch.parse(text)

    assert (arch.kind, arch.capability, arch.suffix, str(arch)) == (kind, capability, suffix, text)
    assert (arch.arch_specific, arch.family_specific) == (suffix == "a", suffix == "f")


@pytest.mark.parametrize("text", ["", "sm_", "sm_8", "sm86", "sm_86b", "SM_86", "sm_86 ", "gfx90a", "sm_1000"])
def test_what_is_no_architecture_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an architecture"):
        Arch.parse(text)


def test_an_arch_list_is_words_between_blanks() -> None:
    archs = parse_arch_list("  sm_50  sm_60\tcompute_60 ")

    assert format_arch_list(archs) == "sm_50 sm_60 compute_60"


@pytest.mark.parametrize(("kind", "suffix"), [("sass", ""), ("sm", "x"), ("", "")])
def test_what_is_no_architecture_cannot_be_made(kind: str, suffix: str) -> None:
    with pytest.raises(ValueError, match="not an architecture"):
        Arch(ComputeCapability(8, 0), kind, suffix)
