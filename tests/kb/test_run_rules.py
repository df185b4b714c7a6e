"""What code runs on which device, against two oracles over all pairs: torch's own table and NVIDIA's rules."""

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envdoctor import kb as knowledge
from envdoctor.kb import KnowledgeBase
from envdoctor.model.arch import Arch, ComputeCapability
from envdoctor.model.device_code import ContainerGroup, KernelCode
from tests.builders import a_container

# Every number that a compute capability of one or two digits before the point can have, known or not.
NUMBERS = tuple(range(20, 140))

KNOWN = tuple(knowledge.load().architectures)
KINDS = ("sm", "compute")
SUFFIXES = ("", "a", "f")
ARCHS = tuple(Arch(capability, kind, suffix) for capability in KNOWN for kind in KINDS for suffix in SUFFIXES)

capabilities = st.sampled_from(NUMBERS).map(ComputeCapability.from_number)
archs = st.builds(Arch, capabilities, st.sampled_from(KINDS), st.sampled_from(SUFFIXES))
containers = st.builds(
    ContainerGroup,
    code=st.lists(st.builds(KernelCode, arch=archs, is_stub=st.booleans()), max_size=4).map(tuple),
    count=st.integers(1, 500),
    relocatable=st.booleans(),
)


# --- torch's table -----------------------------------------------------------------------------------------------


def torch_requirements() -> dict[int, Callable[[int], bool]]:
    """Read ``DEVICE_REQUIREMENT`` of the torch that is installed beside the tests, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed beside the tests")
    source = (Path(spec.origin).parent / "cuda" / "__init__.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "DEVICE_REQUIREMENT":
            assert isinstance(node.value, ast.Dict)
            return {
                ast.literal_eval(k): torch_rule(v) for k, v in zip(node.value.keys, node.value.values, strict=True) if k
            }
    pytest.skip("this torch has no DEVICE_REQUIREMENT: it came with 2.13")


def torch_rule(call: ast.expr) -> Callable[[int], bool]:
    """Understand ``_CompatSet({53})`` and ``_CompatInterval(start=50, exclude={53})``: a range within one major."""
    assert isinstance(call, ast.Call)
    kind = ast.unparse(call.func)
    if kind == "_CompatSet":
        devices = ast.literal_eval(call.args[0])
        return lambda device: device in devices
    assert kind == "_CompatInterval"
    given_ = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    start, excluded = given_["start"], given_.get("exclude", set())
    return lambda device: start <= device < (start // 10 + 1) * 10 and device not in excluded


def test_machine_code_runs_where_torch_says(kb: KnowledgeBase) -> None:
    requirements = torch_requirements()
    said = {(code, device): runs(device) for code, runs in requirements.items() for device in NUMBERS}

    ours = {
        (code, device): kb.runs_on(Arch.parse(f"sm_{code}"), ComputeCapability.from_number(device))
        for code in requirements
        for device in NUMBERS
    }

    assert len(said) >= 20 * len(NUMBERS)
    assert ours == said


# --- NVIDIA's rules ----------------------------------------------------------------------------------------------

# CUDA C++ Programming Guide, "Binary Compatibility": not for Tegra. 10.1 is what CUDA 12 called Thor (11.0).
TEGRA = {"3.2", "5.3", "6.2", "7.2", "8.7", "10.1"}
# Blackwell family-specific targets: https://developer.nvidia.com/blog/nvidia-blackwell-and-nvidia-cuda-12-9-introduce-family-specific-architecture-features/
# and, for 10.7, what ptxas 13.5 assembles them for.
FAMILIES = {
    "10.0": {"10.0", "10.3", "10.7"},
    "10.1": {"10.1", "11.0"},
    "10.3": {"10.3", "10.7"},
    "10.7": {"10.7"},
    "11.0": {"11.0"},
    "12.0": {"12.0", "12.1"},
    "12.1": {"12.1"},
}


def nvidia_says(arch: Arch, device: ComputeCapability) -> bool:
    code = arch.capability
    same_chip = code == device or (str(code), str(device)) == ("10.1", "11.0")
    if arch.suffix == "a":
        return same_chip
    if arch.suffix == "f":
        return str(device) in FAMILIES.get(str(code), {str(code)})
    if arch.kind_name == "compute":
        return (device.major, device.minor) >= (code.major, code.minor)
    if str(code) in TEGRA or str(device) in TEGRA:
        return same_chip
    return code.major == device.major and code.minor <= device.minor


def test_code_of_every_kind_runs_where_nvidia_says(kb: KnowledgeBase) -> None:
    wrong = {
        f"{arch} on {device}"
        for arch in ARCHS
        for device in KNOWN
        if kb.runs_on(arch, device) != nvidia_says(arch, device)
    }

    assert not wrong


# --- pairs that people meet --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "device", "runs"),
    [
        ("sm_86", "8.9", True),  # no torch list has sm_89: an RTX 4090 runs the code of the RTX 3090
        ("sm_80", "8.6", True),
        ("sm_86", "8.0", False),
        ("sm_80", "8.7", False),
        ("sm_89", "9.0", False),
        ("sm_90", "10.0", False),
        ("sm_90a", "9.0", True),
        ("sm_90a", "10.0", False),
        ("compute_90a", "10.0", False),
        ("compute_90", "12.0", True),
        ("compute_80", "8.7", True),
        ("sm_100f", "10.3", True),
        ("sm_100f", "12.0", False),
        ("sm_120f", "12.1", True),
        ("sm_120", "12.1", True),
        ("sm_101", "11.0", True),
        ("sm_110", "10.1", False),
        ("lto_80", "8.0", False),
        ("sm_75", "7.2", False),
        ("sm_140", "14.2", True),  # not in the tables: the general rule
        ("sm_140", "15.0", False),
    ],
)
def test_code_runs_or_not(kb: KnowledgeBase, arch: str, device: str, *, runs: bool) -> None:
    assert kb.runs_on(Arch.parse(arch), ComputeCapability.parse(device)) is runs


# --- laws --------------------------------------------------------------------------------------------------------


@given(arch=archs, device=capabilities)
def test_code_never_runs_on_an_older_device(arch: Arch, device: ComputeCapability) -> None:
    assert not knowledge.load().runs_on(arch, device) or device >= arch.capability


@given(arch=archs, device=capabilities)
def test_where_machine_code_runs_ptx_runs_too(arch: Arch, device: ComputeCapability) -> None:
    runs_on = knowledge.load().runs_on

    machine_code_runs = runs_on(Arch(arch.capability, "sm", arch.suffix), device)
    assert not machine_code_runs or runs_on(Arch(arch.capability, "compute", arch.suffix), device)


@given(arch=archs, device=capabilities)
def test_a_suffix_never_widens_what_runs(arch: Arch, device: ComputeCapability) -> None:
    runs_on = knowledge.load().runs_on

    assert not runs_on(arch, device) or runs_on(Arch(arch.capability, arch.kind_name), device)


@given(groups=st.lists(containers, max_size=5).map(tuple), device=capabilities)
def test_every_container_with_a_kernel_is_counted_once(
    groups: tuple[ContainerGroup, ...], device: ComputeCapability
) -> None:
    coverage = knowledge.load().coverage(groups, device)

    launched = sum(
        group.count for group in groups if not group.relocatable and any(not entry.is_stub for entry in group.code)
    )
    assert coverage.native + coverage.jit + coverage.none == launched


# --- coverage ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "counts"),
    [
        ("8.6", (100, 0, 7)),
        ("9.0", (7, 100, 0)),
        ("7.5", (0, 0, 107)),
    ],
)
def test_containers_are_counted_by_the_way_they_run(kb: KnowledgeBase, device: str, counts: tuple[int, ...]) -> None:
    groups = (a_container("sm_80 compute_80", count=100), a_container("sm_90a", count=7))

    coverage = kb.coverage(groups, ComputeCapability.parse(device))

    assert (coverage.native, coverage.jit, coverage.none) == counts


@pytest.mark.parametrize(
    "group",
    [
        a_container("", count=4),
        a_container("sm_80 compute_80", relocatable=True),
        ContainerGroup(code=(KernelCode(Arch.parse("sm_80"), is_stub=True),), count=1),
    ],
    ids=["empty", "relocatable", "stub of the device link"],
)
def test_containers_that_no_kernel_comes_from_are_left_out(kb: KnowledgeBase, group: ContainerGroup) -> None:
    coverage = kb.coverage((group,), ComputeCapability(8, 0))

    assert (coverage.native, coverage.jit, coverage.none) == (0, 0, 0)


def test_a_stub_beside_kernels_makes_nothing_native(kb: KnowledgeBase) -> None:
    flash_attention = ContainerGroup(
        code=(KernelCode(Arch.parse("sm_75"), is_stub=True), KernelCode(Arch.parse("sm_80"))), count=3
    )

    coverage = kb.coverage((flash_attention,), ComputeCapability(7, 5))

    assert (coverage.native, coverage.none) == (0, 3)
