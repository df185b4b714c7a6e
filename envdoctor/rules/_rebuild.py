"""How to build an extension anew for the GPUs at hand."""

import shlex
from collections.abc import Iterable

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.torch_choice import pip_install
from envdoctor.model.arch import Arch, CodeKind, ComputeCapability
from envdoctor.model.facts import Distribution, TorchBuild
from envdoctor.model.finding import Remedy
from envdoctor.model.wording import enumerate_all
from envdoctor.rules._coverage import DistributionCoverage, Installed, short_path


def extension_remedy(
    extension: DistributionCoverage,
    capabilities: tuple[ComputeCapability, ...],
    installed: Installed,
    kb: KnowledgeBase,
) -> Remedy:
    """Say how to get a build of *extension* with machine code for devices of *capabilities*."""
    others = [one.other_variant for one in extension.libraries if one.other_variant]
    if others and extension.chosen_by:
        variable = extension.chosen_by.partition("=")[0]
        return Remedy(
            summary=f"unset {variable}: {extension.name} then loads {short_path(others[0].library)}, which has such "
            "code",
            commands=(f"unset {variable}",),
        )
    if others:
        return Remedy(
            summary=f"use torch for another CUDA version: {short_path(others[0].library)}, which {extension.name} then "
            "loads, has such code"
        )
    if extension.is_compiled_against_torch:
        return rebuild_remedy(extension.name, capabilities, installed, kb)
    return Remedy(summary=f"install a release of {extension.name} that was built for {enumerate_all(capabilities)}")


def rebuild_remedy(
    name: str, capabilities: tuple[ComputeCapability, ...], installed: Installed, kb: KnowledgeBase
) -> Remedy:
    """Say how to build a distribution that is compiled against torch anew, for devices of *capabilities*."""
    wanted = enumerate_all(capabilities)
    if own := kb.own_build(name):
        return Remedy(summary=f"install a release or a build of {name} that has code for {wanted}: {own.reason}")
    archs = _find_build_archs(installed.torch, capabilities, kb)
    source = find_source(name, installed.distributions)
    can_build = installed.environment is None or isinstance(installed.environment.interpreter, str)
    if not archs or not source or not can_build or installed.torch is None:
        return Remedy(summary=f"build {name} for {wanted}, or install a wheel of it that has such code")
    serving = [arch.capability for arch in archs]
    by_others = "" if set(serving) >= set(capabilities) else f" (code for {enumerate_all(serving)} runs there)"
    arch_list = ";".join(map(str, serving))
    variables = f"FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST={shlex.quote(arch_list)}"
    options = "--no-build-isolation --no-cache-dir --no-deps --force-reinstall"
    return Remedy(
        summary=f"build {name} for {wanted}{by_others}, with the nvcc of CUDA {installed.torch.build_cuda_version} as "
        "torch was, or install a wheel of it that has such code",
        commands=(f"{variables} {pip_install(installed.environment)} {options} {source}",),
    )


def _find_build_archs(
    torch: TorchBuild | None, capabilities: Iterable[ComputeCapability], kb: KnowledgeBase
) -> tuple[Arch, ...]:
    """Return what to compile for: of the architectures of torch itself, the newest that runs on each device.

    The nvcc of its CUDA version and torch/utils/cpp_extension.py know those for certain. torch 1.10 refuses 8.9, but
    code for 8.6 runs there. Empty when torch has none for one of the devices.
    """
    known = torch.arch_list if torch and isinstance(torch.arch_list, tuple) else ()
    machine_code = sorted(arch for arch in known if arch.kind is CodeKind.SASS)
    running = [[arch for arch in machine_code if kb.runs_on(arch, capability)] for capability in capabilities]
    return tuple(sorted({archs[-1] for archs in running})) if all(running) else ()


def find_source(name: str, distributions: tuple[Distribution, ...]) -> str:
    """Return what pip has to be told to build the installed version from source; empty when that is not known."""
    found = next((one for one in distributions if one.name == name and not one.shadowed_by), None)
    if found is None:
        return ""
    if found.editable_root:
        return f"--editable {shlex.quote(found.editable_root)}"
    if found.direct_url:
        return "" if found.direct_url.endswith(".whl") else shlex.quote(found.direct_url)
    # A local version, as in 2.1.2+pt26cu124, is of a wheel from elsewhere.
    if found.installer != "pip" or not isinstance(found.version, str) or "+" in found.version:
        return ""
    return f"--no-binary {name} {name}=={found.version}"
