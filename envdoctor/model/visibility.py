"""Which GPUs a CUDA program can use, by the rules of ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``.

Sources: CUDA C++ Programming Guide, "CUDA Environment Variables"; MIG User Guide, "Device Enumeration"; and torch's
own emulation of the driver (`_parse_visible_devices` and `_transform_uuid_to_ordinals` in torch/cuda/__init__.py).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import takewhile

from envdoctor.model.facts import NOT_PROBED, Absence, Gpu, MigInstance, Unavailable, Variable

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
DEVICE_ORDER = "CUDA_DEVICE_ORDER"

_UUID_PREFIXES = ("GPU-", "MIG-")
_ORDINAL = re.compile(r"\s*\+?0*(\d{1,18})")  # read as by strtoul: `1gpu2` is 1, and any more digits are too many
# An end that is meant: nothing more, a negative number, and what Slurm exports to a job without GPUs.
_MEANT_END = re.compile(r"\s*|\s*-\d.*|NoDevFiles")


class EntryFault(Enum):
    """Why an entry of ``CUDA_VISIBLE_DEVICES`` hides GPUs."""

    UNKNOWN = "names no GPU of this machine"  # hides itself and every entry after it
    REPEATED = "is named twice"  # hides every GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The GPUs that a CUDA program can use."""

    gpus: tuple[Gpu, ...]
    certain: bool = True  # False: it cannot be told which of `gpus` are meant
    setting: str | None = None  # the value of CUDA_VISIBLE_DEVICES; None when it is not set
    entries: tuple[str, ...] = ()  # the entries before the first that is faulty or ends the list
    fault: EntryFault | None = None
    faulty_entry: str = ""

    @property
    def names_mig_instances(self) -> bool:
        """Whether the setting names slices of GPUs, not GPUs."""
        return any(entry.startswith("MIG-") for entry in self.entries)

    @property
    def uses_ordinals(self) -> bool:
        """Whether the setting names GPUs by number, which depends on the order of the devices."""
        return any(not entry.startswith(_UUID_PREFIXES) for entry in self.entries)


def value_of(variables: tuple[Variable, ...], name: str) -> str | None:
    """Return the value of the environment variable *name*, or None when it is not set."""
    return next((variable.value for variable in variables if variable.name == name), None)


def find_visible_gpus(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...]) -> Visibility:
    """Tell which of *gpus* a CUDA program sees; cards named with ``--gpu`` are not here, so all of them count."""
    setting = value_of(variables, VISIBLE_DEVICES)
    if setting is None or any(gpu.is_named for gpu in gpus):
        return Visibility(gpus=gpus)
    here = tuple(sorted(gpus, key=lambda gpu: gpu.index))
    if setting.startswith("MIG-"):
        return _visible_instances(setting, here)
    if setting.startswith("GPU-"):
        return _visible_by_uuid(setting, here)
    return _visible_by_ordinal(setting, here, in_pci_order=has_certain_order(gpus, variables))


def has_certain_order(gpus: tuple[Gpu, ...], variables: tuple[Variable, ...]) -> bool:
    """Tell whether CUDA numbers *gpus* as NVML and nvidia-smi do.

    CUDA's default is FASTEST_FIRST by a heuristic that is not documented; it cannot reorder GPUs of one model.
    """
    # A GPU that NVML lists and could not open has neither UUID nor name.
    models = {gpu.name for gpu in gpus if gpu.uuid}
    return len(models) <= 1 or value_of(variables, DEVICE_ORDER) == "PCI_BUS_ID"


def _visible_by_ordinal(setting: str, gpus: tuple[Gpu, ...], *, in_pci_order: bool) -> Visibility:
    words = setting.split(",")
    ordinals = [int(match[1]) for match in takewhile(bool, map(_ORDINAL.match, words)) if match]
    if (position := _first_repetition(ordinals)) is not None:
        return _nothing_visible(setting, words, position)
    valid = list(takewhile(lambda ordinal: ordinal < len(gpus), ordinals))
    visible = Visibility(
        gpus=tuple(gpus[ordinal] for ordinal in valid),
        setting=setting,
        entries=tuple(word.strip() for word in words[: len(valid)]),
    )
    # How a device number counts the slices of a GPU in MIG mode is not documented.
    if not any(gpu.health and gpu.health.mig_enabled is True for gpu in gpus):
        visible = _with_fault(visible, words)
    if in_pci_order or not valid or len(valid) == len(gpus):
        return visible
    return replace(visible, gpus=gpus, certain=False)


def _visible_by_uuid(setting: str, gpus: tuple[Gpu, ...]) -> Visibility:
    words = setting.split(",")
    named = list(takewhile(lambda word: word.startswith("GPU-"), words))
    if (position := _first_repetition(named)) is not None:
        return _nothing_visible(setting, words, position)
    found = _look_up(named, lambda word: [gpu for gpu in gpus if gpu.uuid.startswith(word)])
    if (position := _first_repetition(found)) is not None:
        return _nothing_visible(setting, words, position)
    visible = Visibility(gpus=tuple(found), setting=setting, entries=tuple(named[: len(found)]))
    if all(gpu.uuid for gpu in gpus):
        return _with_fault(visible, words)
    return replace(visible, gpus=gpus, certain=False)


def _visible_instances(setting: str, gpus: tuple[Gpu, ...]) -> Visibility:
    words = setting.split(",")
    named = takewhile(lambda word: word.startswith("MIG-"), words)
    found = _look_up(named, lambda word: [gpu for gpu in gpus if _has_instance(gpu, word)])
    # One process gets one slice, the first: MIG User Guide, "Device Enumeration".
    visible = Visibility(gpus=tuple(found[:1]), setting=setting, entries=tuple(words[: len(found)]))
    if all(isinstance(_instances(gpu), tuple) for gpu in gpus):
        return _with_fault(visible, words)
    return visible if found else replace(visible, gpus=gpus, certain=False)


def _has_instance(gpu: Gpu, word: str) -> bool:
    # Before R470 a slice was named MIG-GPU-<uuid of the GPU>/<GPU instance>/<compute instance>.
    if word.startswith("MIG-GPU-"):
        return word.removeprefix("MIG-").split("/")[0] == gpu.uuid
    instances = _instances(gpu)
    return isinstance(instances, tuple) and any(instance.uuid.startswith(word) for instance in instances)


def _instances(gpu: Gpu) -> tuple[MigInstance, ...] | Unavailable:
    """Return the slices of a GPU; one that does not support MIG has none."""
    instances = gpu.health.mig_instances if gpu.health else NOT_PROBED
    is_unsupported = isinstance(instances, Unavailable) and instances.absence is Absence.NOT_APPLICABLE
    return () if is_unsupported and instances != NOT_PROBED else instances


def _look_up(words: Iterable[str], find: Callable[[str], list[Gpu]]) -> list[Gpu]:
    """Return the GPUs of the leading words that name exactly one each."""
    matches = takewhile(lambda gpus: len(gpus) == 1, map(find, words))
    return [gpu for [gpu] in matches]


def _first_repetition(values: Sequence[object]) -> int | None:
    seen = set()
    for position, value in enumerate(values):
        if value in seen:
            return position
        seen.add(value)
    return None


def _with_fault(visible: Visibility, words: list[str]) -> Visibility:
    unread = words[len(visible.entries) :]
    if not unread or _MEANT_END.fullmatch(unread[0]):
        return visible
    return replace(visible, fault=EntryFault.UNKNOWN, faulty_entry=unread[0].strip())


def _nothing_visible(setting: str, words: list[str], repeated: int) -> Visibility:
    return Visibility(
        gpus=(),
        setting=setting,
        entries=tuple(word.strip() for word in words[:repeated]),
        fault=EntryFault.REPEATED,
        faulty_entry=words[repeated].strip(),
    )
