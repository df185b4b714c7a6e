"""One row per build of torch, made of what the tables say about releases, builds and indexes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envdoctor.kb.tables import TorchBuildsRow, TorchIndexRow, TorchReleaseRow
from envdoctor.model.arch import Arch
from envdoctor.model.versions import CudaVersion

X86_64 = "linux_x86_64"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuildRow:
    """One build of torch for one CUDA version and platform, and how pip installs it.

    ``pip install REQUIREMENT INDEX_OPTION`` installs exactly this build, also over another build of the same release.
    """

    version: str  # of the release, without local version: "1.13.1"
    cuda: CudaVersion
    platform: str  # "linux_x86_64"
    arch_list: tuple[Arch, ...]  # () when not known
    pythons: tuple[str, ...]
    glibc_min: str
    cxx11_abi: bool
    on_pypi: bool  # what the default index has
    index_url: str  # empty for a build that only the default index has
    index_option: str  # with the URL: "--index-url https://download.pytorch.org/whl/cu118"
    tagged: tuple[str, ...]  # projects whose requirement names the CUDA tag
    uncertain: bool
    source: tuple[str, ...]

    @property
    def tag(self) -> str:
        """PyTorch's name of the CUDA version: ``cu117``."""
        return self.cuda.tag

    @property
    def local_version(self) -> str:
        """The version as `torch.__version__` gives it: ``1.13.1+cu117``."""
        return f"{self.version}+{self.tag}"

    @property
    def requirement(self) -> str:
        """What pip is asked for: ``torch==1.13.1+cu117``."""
        return self.companion_requirement("torch", self.version)

    def companion_requirement(self, project: str, version: str) -> str:
        """Return what to ask pip for so that *project* (torchvision, torchaudio) fits this build."""
        tag = f"+{self.tag}" if project in self.tagged else ""
        return f"{project}=={version}{tag}"


def expand_builds(
    releases: Mapping[str, TorchReleaseRow], groups: Iterable[TorchBuildsRow], indexes: Iterable[TorchIndexRow]
) -> tuple[TorchBuildRow, ...]:
    """Return the builds that *groups* stand for, in the order of *releases*."""
    order = list(releases)
    index_of = {version: index for index in indexes for version in _between(order, index)}
    rows = [
        _build(group, releases[version], cuda, index_of[version])
        for group in groups
        for version in group.releases
        for cuda in group.cuda
    ]
    return tuple(sorted(rows, key=lambda row: (order.index(row.version), row.platform, row.cuda)))


def _between(order: list[str], index: TorchIndexRow) -> list[str]:
    return order[order.index(index.first) : order.index(index.last) + 1]


def _build(group: TorchBuildsRow, release: TorchReleaseRow, cuda: CudaVersion, index: TorchIndexRow) -> TorchBuildRow:
    on_x86 = group.platform == X86_64
    is_default = cuda == (release.default_cuda if on_x86 else release.default_cuda_aarch64)
    on_index = index.has_default or not is_default
    url = index.url.replace("{tag}", cuda.tag) if on_index else ""
    return TorchBuildRow(
        version=release.version,
        cuda=cuda,
        platform=group.platform,
        arch_list=group.arch_list,
        pythons=release.pythons if on_x86 else release.pythons_aarch64,
        glibc_min=group.glibc_min or release.glibc_min,
        cxx11_abi=release.cxx11_abi if group.cxx11_abi is None else group.cxx11_abi,
        on_pypi=is_default,
        index_url=url,
        index_option=f"{index.option} {url}" if on_index else "",
        tagged=index.tagged if on_index else (),
        uncertain=group.uncertain or (on_index and index.uncertain),
        source=group.source,
    )
