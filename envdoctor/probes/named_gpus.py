"""Cards and a driver that are not here but named on the command line: to judge before renting them."""

from envdoctor.errors import DriverReleaseError
from envdoctor.kb import KnowledgeBase
from envdoctor.kb.gpu_names import GpuModel
from envdoctor.model.facts import Absence, Driver, Gpu, Unavailable
from envdoctor.model.versions import DriverRelease

_NOT_HERE = Unavailable("the driver was named with --driver, it is not loaded here", Absence.NOT_APPLICABLE)


def find_named_gpus(names: tuple[str, ...], kb: KnowledgeBase) -> tuple[Gpu, ...]:
    """Find the cards that people mean by *names*; names of one card give it once.

    Raises:
        UnknownGpuError: there is no such card; the message lists the nearest names.

    """
    models: dict[GpuModel, str] = {}
    for name in names:
        models.setdefault(kb.find_gpu(name), name)
    return tuple(
        Gpu(
            index=index,
            name=model.name,
            compute_capability=model.compute_capability,
            source=f"--gpu {name}",
            brand="GEFORCE" if model.is_geforce else "",
        )
        for index, (model, name) in enumerate(models.items())
    )


def named_driver(text: str, kb: KnowledgeBase) -> Driver:
    """Describe the driver that the named cards run under: ``535.161.07``, or ``535`` for any of its branch.

    Raises:
        DriverReleaseError: *text* is not a release of the driver.

    """
    try:
        release = DriverRelease.parse(text)
    except ValueError as exc:
        raise DriverReleaseError(f"{exc}; examples are 535 and 535.161.07") from exc
    unknown = Unavailable(f"the newest CUDA of driver branch {release.branch} is not known")
    return Driver(
        release_version=release,
        source="--driver",
        cuda_version=kb.newest_cuda(release) or unknown,
        module_version=_NOT_HERE,
        library_version=_NOT_HERE,
        open_module=_NOT_HERE,
    )
