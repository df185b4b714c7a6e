"""Understands how people, drivers and rental sites spell the names of GPUs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envdoctor.errors import UnknownGpuError
from envdoctor.kb.tables import GpuAliasRow, GpuRow
from envdoctor.model.arch import ComputeCapability

_CAPABILITY = re.compile(r"(?:sm|compute)_?(?P<number>\d{2,3})[af]?|(?P<version>\d{1,2}\.\d)")

# Words that people glue to the next one ("rtx4090"), and words that they add or leave out at will.
_BRANDS = ("nvidia", "geforce", "quadro", "tesla", "titan", "jetson", "rtx", "gtx", "gpu")
_OPTIONAL = frozenset({*_BRANDS, "with", "design", "graphics", "generation", "edition"} - {"quadro", "titan"})
_SYNONYMS = {"mobile": "laptop", "notebook": "laptop", "max q": "maxq", "pci e": "pcie"}
_SYNONYM = re.compile(rf"\b({'|'.join(_SYNONYMS)})\b")
# Words that a name may hold in another form.
_REWRITTEN = frozenset({*_SYNONYMS.values(), "sxm"})
_GLUED = re.compile(rf"({'|'.join(_BRANDS)})(?=[a-z0-9])")
_COUNT = re.compile(r"\b\d{1,2}x\b")  # "gpu_8x_a100", "8x A100"
_WORD = re.compile(r"\d+gb?\b|[a-z]*\d+|[a-z]+")
_MEMORY = re.compile(r"(\d+)gb?")

_SHOWN_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModel:
    """A GPU as it is named, and what follows from the name."""

    name: str
    compute_capability: ComputeCapability
    memory_gb: float | None  # None when not known, or when the name stands for several sizes
    architecture: str

    @property
    def is_geforce(self) -> bool:
        """Whether it is a consumer card, which NVIDIA leaves out of forward compatibility."""
        return "geforce" in self.name.lower()


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A name taken apart: the words that tell it from others, those that may be missing, and a size of memory."""

    telling: frozenset[str]
    optional: frozenset[str]
    memory: float | None

    @classmethod
    def of(cls, name: str) -> "_Spelling":
        text = re.sub(r"[^a-z0-9]+", " ", name.lower())
        text = _GLUED.sub(r"\1 ", _COUNT.sub(" ", text))
        text = _SYNONYM.sub(lambda match: _SYNONYMS[match[1]], text)
        words = set(_WORD.findall(text))
        sizes = {word for word in words if _MEMORY.fullmatch(word)}
        # "TITAN RTX" and "Quadro RTX 6000" are not "TITAN" and "Quadro 6000".
        optional = (words & _OPTIONAL) - ({"rtx"} if words & {"titan", "quadro"} else set())
        size = next((float(match[1]) for word in sorted(sizes) if (match := _MEMORY.fullmatch(word))), None)
        return cls(frozenset(words - optional - sizes), frozenset(optional), size)

    def is_part_of(self, other: "_Spelling") -> bool:
        """Whether every telling word is in *other*; "sxm" stands for any of its generations."""
        missing = self.telling - other.telling
        if missing == {"sxm"} and any(word.startswith("sxm") for word in other.telling):
            return True
        return bool(self.telling) and not missing

    def may_be_part_of(self, name: str) -> bool:
        """Whether a name is worth taking apart: there are hundreds, and few hold the words."""
        return all(word in name for word in self.telling - _REWRITTEN)


class GpuNames:
    """The names of all products, ready to be searched."""

    def __init__(
        self,
        gpus: Iterable[GpuRow],
        aliases: Iterable[GpuAliasRow],
        architectures: Mapping[ComputeCapability, str],
    ) -> None:
        self._gpus = {gpu.name: gpu for gpu in gpus}
        self._aliases = {alias.alias.lower(): alias.gpu for alias in aliases}
        self._architectures = architectures
        self._names = [(name.lower(), gpu) for gpu in self._gpus.values() for name in (gpu.name, *gpu.aliases)]

    def find(self, text: str) -> GpuModel:
        """See `KnowledgeBase.find_gpu`."""
        name = text.strip()
        if match := _CAPABILITY.fullmatch(name.lower()):
            return self._of_capability(name, match)
        if gpu := self._of_alias(name.lower()):
            return self._model(gpu.name, [gpu], None)
        wanted = _Spelling.of(name)
        taken_apart = ((_Spelling.of(known), gpu) for known, gpu in self._names if wanted.may_be_part_of(known))
        candidates = [(spelling, gpu) for spelling, gpu in taken_apart if wanted.is_part_of(spelling)]
        if not candidates:
            raise UnknownGpuError(f"no GPU called `{text}` is known; {self._nearest(name)}")
        closest = _closest(wanted, candidates)
        gpus = list({gpu.name: gpu for _, gpu in closest}.values())
        if len({gpu.compute_capability for gpu in gpus}) > 1:
            names = ", ".join(f"{gpu.name} ({gpu.compute_capability})" for gpu in gpus[:_SHOWN_NAMES])
            raise UnknownGpuError(f"`{text}` can mean several GPUs: {names}")
        # A size inside a product's name is not always that of the GPU: GH200 480GB has 96 GB beside the processor's.
        memory = None if any(spelling.memory for spelling, _ in closest) else wanted.memory
        return self._model(gpus[0].name if len(gpus) == 1 else name, gpus, memory)

    def _of_capability(self, name: str, match: re.Match[str]) -> GpuModel:
        number, version = match["number"], match["version"]
        capability = ComputeCapability.from_number(int(number)) if number else ComputeCapability.parse(version)
        if capability not in self._architectures:
            known = ", ".join(map(str, self._architectures))
            raise UnknownGpuError(f"no GPU has compute capability {capability}; known are {known}")
        architecture = self._architectures[capability]
        return GpuModel(name=name, compute_capability=capability, memory_gb=None, architecture=architecture)

    def _of_alias(self, name: str) -> GpuRow | None:
        """Find ``g5.xlarge`` by ``g5``: clouds append the size after a separator; the longest alias counts."""
        near = (alias for alias in self._aliases if alias[:1] == name[:1])  # the others are not worth a pattern each
        fitting = [alias for alias in near if re.match(re.escape(alias).replace(r"\#", r"\d+") + "(?![a-z0-9])", name)]
        return self._gpus[self._aliases[max(fitting, key=len)]] if fitting else None

    def _model(self, name: str, gpus: list[GpuRow], memory: float | None) -> GpuModel:
        capability = gpus[0].compute_capability
        sizes = {size for gpu in gpus for size in gpu.memory_gb or (None,)}
        return GpuModel(
            name=name,
            compute_capability=capability,
            memory_gb=memory or (sizes.pop() if len(sizes) == 1 else None),
            architecture=self._architectures[capability],
        )

    def _nearest(self, name: str) -> str:
        import difflib

        keys = {_key(known): gpu.name for gpu in self._gpus.values() for known in (gpu.name, *gpu.aliases)}
        near = difflib.get_close_matches(_key(name), keys, n=_SHOWN_NAMES, cutoff=0.5)
        if not near:
            return "name it as `nvidia-smi` does, or by its compute capability, e.g. sm_86"
        return f"nearest: {', '.join(dict.fromkeys(keys[key] for key in near))}"


def _closest(wanted: _Spelling, candidates: list[tuple[_Spelling, GpuRow]]) -> list[tuple[_Spelling, GpuRow]]:
    """Drop the candidates that say more than was asked for, as long as some do not."""
    for said_less in (
        lambda spelling: len(spelling.telling) == len(wanted.telling),
        lambda spelling: wanted.memory is None or spelling.memory == wanted.memory,
        lambda spelling: spelling.memory is None or wanted.memory is not None,
        lambda spelling: wanted.optional <= spelling.optional | spelling.telling,
    ):
        candidates = [pair for pair in candidates if said_less(pair[0])] or candidates
    return sorted(candidates, key=lambda pair: len(pair[0].telling))


def _key(name: str) -> str:
    spelling = _Spelling.of(name)
    size = f" {spelling.memory:g}gb" if spelling.memory else ""
    return " ".join(sorted(spelling.telling)) + size
