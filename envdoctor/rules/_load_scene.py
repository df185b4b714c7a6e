"""What the failures of the dynamic loader are judged by."""

from dataclasses import dataclass

from envdoctor.kb import KnowledgeBase
from envdoctor.model import bitsandbytes
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild, Variable
from envdoctor.model.loading import Loader
from envdoctor.model.visibility import value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What failures are judged by, and what remedies have to fit."""

    loader: Loader
    kb: KnowledgeBase
    distributions: tuple[Distribution, ...]
    torch: TorchBuild | None = None
    environment: Environment | None = None
    host: Host | None = None
    device_code: tuple[DeviceCode, ...] = ()
    variables: tuple[Variable, ...] = ()

    @property
    def lacks_torch(self) -> bool:
        """Whether there is no torch, and not one that could not be read."""
        return self.torch is None and not any(each.name == "torch" for each in self.distributions)

    def version_of(self, distribution: str) -> str:
        """Return the version of a distribution; "" when there is none."""
        found = (each.version for each in self.distributions if each.name == distribution and not each.shadowed_by)
        version = next(found, "")
        return version if isinstance(version, str) else ""

    def forced_variant(self, distribution: str) -> str:
        """Return the CUDA version that bitsandbytes is told to load its library for, "" when it chooses itself."""
        if distribution != bitsandbytes.DISTRIBUTION:
            return ""
        return value_of(self.variables, bitsandbytes.VARIABLE) or ""

    def is_lfs_pointer(self, library: str) -> bool:
        """Tell whether a file is what Git LFS leaves in place of the one that it did not fetch."""
        return any("Git LFS" in code.unreadable for code in self.device_code if code.library == library)
