"""Says how to install the companions that belong to the torch that is installed."""

from dataclasses import dataclass

from packaging.version import Version

from envdoctor.kb import KnowledgeBase
from envdoctor.kb.tables import CompanionPinRow
from envdoctor.kb.torch_choice import COMPANIONS, bring_to_light, pip_install, wheel_platform
from envdoctor.model.facts import Distribution, Environment, MetadataKind, TorchBuild, TorchFlavour
from envdoctor.model.finding import Remedy
from envdoctor.model.wording import enumerate_all

_XFORMERS = "xformers"
# From this torch on, the indexes of other CUDA versions than the default have xformers too.
_FIRST_WITH_XFORMERS = Version("2.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionWish:
    """The torch that is to stay, and what is installed beside it."""

    torch: TorchBuild
    environment: Environment | None
    distributions: tuple[Distribution, ...]

    def find(self, name: str) -> Distribution | None:
        """Return the distribution that the interpreter finds under a name."""
        return next((each for each in self.distributions if each.name == name and not each.shadowed_by), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """Where pip finds the builds of the flavour of the installed torch."""

    option: str  # "" for the default index
    tag: str
    tagged: tuple[str, ...]  # projects whose version carries the tag there

    def requirement(self, project: str, version: str) -> str:
        return f"{project}=={version}+{self.tag}" if project in self.tagged else f"{project}=={version}"


def companion_remedy(name: str, wish: CompanionWish, kb: KnowledgeBase) -> Remedy:
    """Say how to get the *name* (torchvision, xformers, ...) that belongs to the installed torch."""
    torch = wish.torch
    if own := bring_to_light(torch, wish.environment, wish.distributions):
        return own
    if torch.installed_by == "conda":
        return Remedy(
            summary=f"let conda install the {name} that belongs to its torch {torch.version}, from the channel that "
            "torch came from"
        )
    index = _find_index(wish, kb)
    if index and name in (versions := _find_companions(torch, kb)):
        return _replace_companions(wish, index, versions)
    if index and name == _XFORMERS and (row := kb.companion_for(name, torch.version)):
        return _replace_xformers(row, index, wish, kb)
    if any(name in row.distributions for row in kb.source_only):
        return _build_anew(name, wish)
    return Remedy(summary=f"install the {name} that was built for torch {torch.version}, or build it anew beside it")


def _find_index(wish: CompanionWish, kb: KnowledgeBase) -> _Index | None:
    torch, release = wish.torch, wish.torch.version.partition("+")[0]
    platform = wheel_platform(wish.environment)
    if torch.flavour is TorchFlavour.CUDA:
        rows = (row for row in kb.torch_builds() if row.version == release and row.cuda == torch.build_cuda_version)
        row = next((row for row in rows if row.platform == platform), None)
        return _Index(option=row.index_option, tag=row.tag, tagged=row.tagged) if row else None
    order = list(kb.torch_releases)
    for row_of_index in kb.torch_indexes if torch.flavour is TorchFlavour.CPU and release in order else ():
        if order.index(row_of_index.first) <= order.index(release) <= order.index(row_of_index.last):
            url = row_of_index.url.replace("{tag}", "cpu")
            return _Index(option=f"{row_of_index.option} {url}", tag="cpu", tagged=row_of_index.tagged)
    return None


def _find_companions(torch: TorchBuild, kb: KnowledgeBase) -> dict[str, str]:
    """Return the companions that were released with torch, and the older ones that fit later releases too."""
    versions = kb.companions(torch.version)
    for project in COMPANIONS:
        row = kb.companion_for(project, torch.version)
        # Of another CUDA version than those of its own time there is no build.
        known = {build.cuda for build in kb.torch_builds() if row and build.version == row.torch}
        if row and project not in versions and (torch.build_cuda_version in known or not torch.build_cuda_version):
            versions[project] = row.version
    return versions


def _replace_companions(wish: CompanionWish, index: _Index, versions: dict[str, str]) -> Remedy:
    """Name torch and all of its companions in one command: pip then keeps them together."""
    names = [name for name in COMPANIONS if name in versions and wish.find(name)]
    requirements = [index.requirement(name, versions[name]) for name in names]
    options = ""
    if any(_seems_installed(name, index, versions[name], wish) for name in names):
        # pip takes the other build of a version for the right one; and torch itself stays as it is.
        options = "--force-reinstall --no-deps"
    else:
        requirements.insert(0, _requirement_of_torch(wish, index))
    words = [pip_install(wish.environment), options, *requirements, index.option]
    listed = enumerate_all(f"{name} {versions[name]}" for name in names)
    return Remedy(
        summary=f"install what belongs to torch {wish.torch.version}, from one index: {listed}",
        commands=(" ".join(filter(None, words)),),
    )


def _replace_xformers(xformers: CompanionPinRow, index: _Index, wish: CompanionWish, kb: KnowledgeBase) -> Remedy:
    pip, release = pip_install(wish.environment), wish.torch.version.partition("+")[0]
    if wish.torch.flavour is TorchFlavour.CPU:
        default = next((row for row in kb.torch_builds() if row.version == release and row.on_pypi), None)
        command = default and f"{pip} {default.requirement} {default.index_option}".rstrip()
        return Remedy(
            summary=f"install torch {release} with CUDA, for which xformers is built, or remove xformers",
            commands=(command,) if command else (),
        )
    if python := _python_without_wheel(xformers, wish.environment):
        return Remedy(
            summary=f"build xformers {xformers.version} beside this torch, with nvcc: there is no wheel of it for "
            f"Python {python}, and without FORCE_CUDA pip compiles it for the CPU",
            commands=(_compile_anew(_XFORMERS, xformers.version, wish),),
        )
    # The default index has the build for the CUDA version that was the default of its torch.
    is_default = kb.torch_releases[xformers.torch].default_cuda == wish.torch.build_cuda_version
    option = f" {index.option}" if Version(release) >= _FIRST_WITH_XFORMERS and not is_default else ""
    return Remedy(
        summary=f"install the build of xformers {xformers.version} for this torch and CUDA "
        f"{wish.torch.build_cuda_version}",
        commands=(f"{pip} --force-reinstall --no-deps {_XFORMERS}=={xformers.version}{option}",),
    )


def _python_without_wheel(row: CompanionPinRow, environment: Environment | None) -> str:
    """Return the version of the interpreter if there is no wheel for it, else ""."""
    version = environment.python_version if environment else None
    python = ".".join(map(str, version[:2])) if isinstance(version, tuple) else ""
    return python if row.pythons and python not in row.pythons else ""


def _compile_anew(name: str, version: str, wish: CompanionWish) -> str:
    options = "--no-build-isolation --no-cache-dir --no-deps --force-reinstall"
    force_cuda = "FORCE_CUDA=1 " if wish.torch.flavour is TorchFlavour.CUDA else ""
    return f"{force_cuda}{pip_install(wish.environment)} {options} --no-binary {name} {name}=={version}"


def _seems_installed(name: str, index: _Index, version: str, wish: CompanionWish) -> bool:
    installed = wish.find(name)
    is_same = installed is not None and str(installed.version).partition("+")[0] == version
    return is_same and name not in index.tagged


def _requirement_of_torch(wish: CompanionWish, index: _Index) -> str:
    """Ask for the torch that is there: wheels of the default index have no local version in their metadata."""
    version = wish.torch.version.partition("+")[0]
    owner = wish.find("torch")
    return f"torch=={version}" if owner and owner.version == version else index.requirement("torch", version)


def _build_anew(name: str, wish: CompanionWish) -> Remedy:
    installed = wish.find(name)
    summary = f"install the wheel of {name} for torch {wish.torch.version}, or build it anew beside it"
    is_plain = installed is not None and installed.metadata_kind is MetadataKind.DIST_INFO
    if installed is None or not is_plain or not isinstance(installed.version, str):
        return Remedy(summary=summary)
    command = _compile_anew(name, installed.version.partition("+")[0], wish)
    return Remedy(summary=summary, commands=(command,))
