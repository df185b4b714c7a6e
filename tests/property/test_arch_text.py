"""An architecture that was written and read again is the same architecture."""

from hypothesis import given
from hypothesis import strategies as st

from envdoctor.model.arch import Arch, ComputeCapability, format_arch_list, parse_arch_list
from tests.property.strategies import archs, capabilities


@given(archs)
def test_one_architecture(arch: Arch) -> None:
    assert Arch.parse(str(arch)) == arch


@given(st.lists(archs))
def test_a_list_of_architectures(listed: list[Arch]) -> None:
    assert parse_arch_list(format_arch_list(tuple(listed))) == tuple(listed)


@given(capabilities)
def test_a_compute_capability(capability: ComputeCapability) -> None:
    assert ComputeCapability.parse(str(capability)) == capability
    assert ComputeCapability.from_number(capability.number) == capability
