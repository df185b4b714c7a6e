"""The tables agree with themselves and with one another."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tomli
from packaging.version import Version

from envdoctor import kb as knowledge
from envdoctor.kb import KnowledgeBase
from envdoctor.kb.figures import GpuFiguresRow
from envdoctor.kb.tables import Row
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.versions import CudaVersion

FOLDER = Path(knowledge.__file__).parent


def document(file: str) -> dict[str, Any]:
    return tomli.loads((FOLDER / file).read_text(encoding="utf-8"))


def words(value: str | list[str]) -> list[str]:
    return value.split() if isinstance(value, str) else value


def all_rows(kb: KnowledgeBase) -> dict[str, tuple[Row, ...]]:
    return {
        "architectures": tuple(kb.architectures.values()),
        "toolkits": tuple(kb.toolkits.values()),
        "ptx": kb.ptx_versions,
        "minimum drivers": kb.minimum_drivers,
        "driver branches": tuple(kb.driver_branches.values()),
        "gpus": kb.gpus,
        "aliases": kb.gpu_aliases,
        "chips": kb.chips,
        "figures": kb.gpu_figures,
        "rates": kb.rates,
        "measured": kb.measured,
        "training": kb.training,
        "torch releases": tuple(kb.torch_releases.values()),
        "torch builds": kb.torch_build_groups,
        "torch indexes": kb.torch_indexes,
        "CUDA parts": kb.cuda_parts(),
        "companion pins": kb.companion_pins,
        "source only": kb.source_only,
        "load effects": kb.load_effects(),
        "system libraries": kb.system_libraries(),
        "torch symbols": kb.torch_symbols(),
        "symptoms": kb.symptoms(),
    }


def release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def is_ascending(values: Iterable[Any]) -> bool:
    return all(first < second for first, second in pairwise(values))


# --- every row ---------------------------------------------------------------------------------------------------


def test_every_row_says_where_it_was_read(kb: KnowledgeBase) -> None:
    silent = {table for table, rows in all_rows(kb).items() for row in rows if not row.source or not all(row.source)}

    assert not silent


def test_every_table_has_rows(kb: KnowledgeBase) -> None:
    assert [table for table, rows in all_rows(kb).items() if not rows] == []


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("*.toml")))
def test_every_source_is_used(file: str) -> None:
    tables = document(file)
    sources = tables.pop("sources")

    used = {key for rows in tables.values() for row in rows for key in words(row["source"])}
    assert sources.keys() == used


@pytest.mark.parametrize(
    ("file", "table", "key"),
    [
        ("architectures.toml", "architecture", "capability"),
        ("cuda.toml", "toolkit", "version"),
        ("cuda.toml", "ptx", "version"),
        ("cuda.toml", "ptx", "cuda"),
        ("cuda.toml", "minimum_driver", "cuda"),
        ("cuda.toml", "driver_branch", "branch"),
        ("gpus.toml", "gpu", "name"),
        ("gpus.toml", "alias", "alias"),
        ("chips.toml", "chip", "chip"),
        ("gpu_figures.toml", "figures", "gpu"),
        ("gpu_figures.toml", "rate", "compute_capability"),
        ("gpu_figures.toml", "measured", "gpu"),
        ("torch.toml", "release", "version"),
        ("torch.toml", "index", "first"),
        ("symptoms.toml", "symptom", "pattern"),
    ],
)
def test_no_key_is_there_twice(file: str, table: str, key: str) -> None:
    count = Counter(row[key] for row in document(file)[table])

    assert [key for key, times in count.items() if times > 1] == []


def test_load_effects_are_found_by_the_folder_that_they_start_with(kb: KnowledgeBase) -> None:
    patterns = [row.library for row in kb.load_effects() if "/" in row.library]

    assert [pattern for pattern in patterns if re.search(r"[*?[]", pattern.partition("/")[0])] == []


def test_every_system_library_is_in_one_package(kb: KnowledgeBase) -> None:
    count = Counter(name for row in kb.system_libraries() for name in row.libraries)

    assert [name for name, times in count.items() if times > 1] == []


# --- architectures -----------------------------------------------------------------------------------------------


def test_every_capability_that_a_table_names_is_an_architecture(kb: KnowledgeBase) -> None:
    named: dict[str, set[ComputeCapability]] = {
        "gpus": {row.compute_capability for row in kb.gpus},
        "chips": {row.compute_capability for row in kb.chips},
        "rates": {row.compute_capability for row in kb.rates},
        "toolkits": {arch.capability for row in kb.toolkits.values() for arch in row.targets},
        "torch": {arch.capability for row in kb.torch_builds() for arch in row.arch_list},
        "families": {device for row in kb.architectures.values() for device in (*row.family, *row.also_runs_on)},
    }

    unknown = {table: capabilities - kb.architectures.keys() for table, capabilities in named.items()}
    assert unknown == {table: set() for table in named}


def test_an_architecture_is_a_target_from_its_first_to_its_last_toolkit(kb: KnowledgeBase) -> None:
    targets = {
        (arch.capability, version)
        for version, toolkit in kb.toolkits.items()
        for arch in toolkit.targets
        if not arch.suffix
    }
    oldest, newest = min(kb.toolkits), max(kb.toolkits)

    said = {
        (row.capability, version)
        for row in kb.architectures.values()
        for version in kb.toolkits
        if (row.first_toolkit or oldest) <= version <= (row.last_toolkit or newest)
    }
    assert said == targets


def test_a_suffixed_target_stands_beside_the_plain_one(kb: KnowledgeBase) -> None:
    for toolkit in kb.toolkits.values():
        plain = {arch.capability for arch in toolkit.targets if not arch.suffix}

        assert {arch.capability for arch in toolkit.targets} == plain


def test_a_family_begins_with_the_architecture_that_it_is_named_after(kb: KnowledgeBase) -> None:
    families = [row for row in kb.architectures.values() if row.family]

    assert [row.family[0] for row in families] == [row.capability for row in families]
    assert all(is_ascending(row.family) for row in families)


def test_architectures_are_in_order(kb: KnowledgeBase) -> None:
    assert is_ascending(kb.architectures)


# --- CUDA and drivers --------------------------------------------------------------------------------------------


def test_newer_cuda_never_needs_an_older_driver(kb: KnowledgeBase) -> None:
    assert is_ascending(row.cuda for row in kb.minimum_drivers)
    assert is_ascending(row.linux for row in kb.minimum_drivers)
    assert is_ascending(row.windows for row in kb.minimum_drivers)


def test_newer_cuda_never_has_older_ptx(kb: KnowledgeBase) -> None:
    assert is_ascending(row.cuda for row in kb.ptx_versions)
    assert is_ascending(row.version for row in kb.ptx_versions)


def test_every_toolkit_has_a_driver_and_a_ptx_version(kb: KnowledgeBase) -> None:
    lacking = [v for v in kb.toolkits if kb.minimum_driver(v) is None or kb.ptx_isa(v) is None]

    assert is_ascending(kb.toolkits)
    assert lacking == []


def test_newer_branches_support_newer_cuda(kb: KnowledgeBase) -> None:
    assert is_ascending(kb.driver_branches)
    assert is_ascending(row.newest_cuda for row in kb.driver_branches.values())


def test_a_branch_runs_the_cuda_that_it_supports(kb: KnowledgeBase) -> None:
    for row in kb.driver_branches.values():
        minimum = kb.minimum_driver(row.newest_cuda)

        assert minimum is None or minimum.branch <= row.branch


def test_a_host_compiler_range_is_not_empty(kb: KnowledgeBase) -> None:
    ranges = [(row.gcc_min or 0, row.gcc_max) for row in kb.toolkits.values() if row.gcc_max]

    assert all(oldest < newest for oldest, newest in ranges)


# --- GPUs --------------------------------------------------------------------------------------------------------


def test_every_gpu_that_a_table_names_is_there(kb: KnowledgeBase) -> None:
    names = {row.name for row in kb.gpus}
    named = [
        *(row.gpu for row in kb.gpu_aliases),
        *(row.gpu for row in kb.gpu_figures),
        *(row.gpu for row in kb.measured),
        *(row.gpu for row in kb.training),
    ]

    assert set(named) - names == set()


def test_a_size_in_a_name_is_the_memory_of_the_gpu(kb: KnowledgeBase) -> None:
    sizes = {
        row.name: (float(size[1]),)
        for row in kb.gpus
        if (size := re.search(r"(\d+) ?G(?:B| HBM)", row.name)) and not re.search("GH200 (120|480)GB", row.name)
    }

    assert {row.name: row.memory_gb for row in kb.gpus if row.name in sizes} == sizes


def test_a_pci_number_belongs_to_one_chip(kb: KnowledgeBase) -> None:
    count = Counter(number for row in kb.chips for number in row.pci_ids)

    assert [number for number, times in count.items() if times > 1] == []
    assert [number for number in count if not re.fullmatch("[0-9a-f]{4}", number)] == []


def test_figures_agree_with_the_names(kb: KnowledgeBase) -> None:
    gpus = {row.name: row for row in kb.gpus}
    chips = {row.chip: row.compute_capability for row in kb.chips}

    for row in kb.gpu_figures:
        assert row.memory_gb in gpus[row.gpu].memory_gb
        assert chips[row.chip] == gpus[row.gpu].compute_capability


def test_computed_and_remembered_figures_are_figures(kb: KnowledgeBase) -> None:
    known = {field.name for field in fields(GpuFiguresRow)}

    for row in kb.gpu_figures:
        assert {*row.derived, *row.remembered} <= known
        assert [name for name in row.derived if getattr(row, name) is None] == []


def test_a_measured_range_goes_up(kb: KnowledgeBase) -> None:
    ranges = [
        value
        for row in kb.measured
        for field in fields(row)
        if field.name.endswith("_tflops")
        if (value := getattr(row, field.name))
    ]

    assert all(len(value) == 2 and value[0] <= value[1] for value in ranges)


# --- torch -------------------------------------------------------------------------------------------------------


def test_releases_are_in_order(kb: KnowledgeBase) -> None:
    assert is_ascending(map(release, kb.torch_releases))


def test_the_pythons_of_a_release_are_tags(kb: KnowledgeBase) -> None:
    tags = {tag for row in kb.torch_releases.values() for tag in (*row.pythons, *row.pythons_aarch64)}

    assert [tag for tag in tags if not re.fullmatch(r"cp(27|3\d{1,2})t?", tag)] == []


def test_a_companion_belongs_to_one_release(kb: KnowledgeBase) -> None:
    # torchtext 0.18.0, the last one, fits every torch from 2.3.0 on.
    count = Counter(pair for version in kb.torch_releases for pair in kb.companions(version).items())

    assert [pair for pair, times in count.items() if times > 1] == [("torchtext", "0.18.0")]


@pytest.mark.parametrize("project", ["torchvision", "torchaudio", "torchtext"])
def test_newer_releases_have_newer_companions(kb: KnowledgeBase, project: str) -> None:
    versions = [release(v) for row in kb.torch_releases.values() if (v := getattr(row, project))]

    assert versions == sorted(versions)


def test_every_release_but_the_newest_has_a_torchvision(kb: KnowledgeBase) -> None:
    lacking = [version for version in kb.torch_releases if "torchvision" not in kb.companions(version)]

    assert lacking == ["2.15.0"]


def test_the_default_build_of_every_release_is_among_the_builds(kb: KnowledgeBase) -> None:
    defaults = {(row.version, row.platform): row.cuda for row in kb.torch_builds() if row.on_pypi}

    said = {(row.version, "linux_x86_64"): row.default_cuda for row in kb.torch_releases.values() if row.default_cuda}
    said |= {
        (row.version, "linux_aarch64"): row.default_cuda_aarch64
        for row in kb.torch_releases.values()
        if row.default_cuda_aarch64
    }
    assert defaults == said


def test_no_build_is_there_twice(kb: KnowledgeBase) -> None:
    count = Counter((row.version, row.cuda, row.platform) for row in kb.torch_builds())

    assert [build for build, times in count.items() if times > 1] == []


def test_every_release_has_one_index(kb: KnowledgeBase) -> None:
    order = list(kb.torch_releases)
    covered = [
        version for row in kb.torch_indexes for version in order[order.index(row.first) : order.index(row.last) + 1]
    ]

    assert covered == order


def test_the_arch_list_of_every_build_is_known_or_marked(kb: KnowledgeBase) -> None:
    unknown = {(row.version, row.tag) for row in kb.torch_builds() if not row.arch_list}

    assert unknown == {
        ("1.0.0", "cu80"),
        ("1.2.0", "cu92"),
        ("1.3.0", "cu92"),
        ("1.3.0", "cu100"),
        ("1.3.1", "cu92"),
        ("1.3.1", "cu100"),
    }
    assert all(row.uncertain for row in kb.torch_builds() if not row.arch_list)


def test_the_cuda_of_every_build_can_target_its_arch_list(kb: KnowledgeBase) -> None:
    impossible = [
        f"torch {row.local_version}: {arch}"
        for row in kb.torch_builds()
        for arch in row.arch_list
        if not _is_target(kb, arch.capability, row.cuda)
    ]

    assert impossible == []


def _is_target(kb: KnowledgeBase, capability: ComputeCapability, cuda: CudaVersion) -> bool:
    row = kb.architectures[capability]
    return (row.first_toolkit or cuda) <= cuda <= (row.last_toolkit or cuda)


def test_every_build_has_a_minimum_driver(kb: KnowledgeBase) -> None:
    assert [row.local_version for row in kb.torch_builds() if kb.minimum_driver(row.cuda) is None] == []


# --- companions --------------------------------------------------------------------------------------------------


def test_every_pinned_torch_is_a_release(kb: KnowledgeBase) -> None:
    assert {row.torch for row in kb.companion_pins} - kb.torch_releases.keys() == set()


def test_pins_are_in_order(kb: KnowledgeBase) -> None:
    for name in {row.distribution for row in kb.companion_pins}:
        pins = [row for row in kb.companion_pins if row.distribution == name]

        assert [row.version for row in pins] == sorted((row.version for row in pins), key=Version)
