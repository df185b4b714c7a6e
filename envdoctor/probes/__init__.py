"""The machine in, facts out: every side effect of examining lives in this package, and nothing here judges."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from envdoctor.errors import ProbeError

if TYPE_CHECKING:  # `envdoctor scan` imports this package, and has no use for facts; they take their time to load
    from envdoctor.kb import KnowledgeBase
    from envdoctor.model.facts import Facts, Unavailable

T = TypeVar("T")

_NOT_HERE = "the named cards are not in this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to examine; empty values mean the default."""

    python: str = ""  # path of an interpreter, or a version like "3.8"
    prefix: str = ""  # folder of a venv or conda environment, or a bare site-packages
    gpus: tuple[str, ...] = ()  # names of cards that are not here, as people spell them
    driver: str = ""  # release of the driver that the named cards run under
    deep: bool = False  # also read NVIDIA's libraries, and look for device code outside the fatbin sections


def collect(plan: Plan, kb: "KnowledgeBase", *, meanwhile: "Callable[[Facts], object]" = lambda _: None) -> "Facts":
    """Run every probe; what one cannot find out becomes `Unavailable` and leaves the others standing.

    *meanwhile* is done with what is known so far while there is nothing to do but to wait.

    Raises:
        EnvironmentNotFoundError: there is no environment where *plan* says there is one.
        UnknownGpuError: *plan* names a card that the knowledge base does not know.
        DriverReleaseError: *plan* names a driver that is none.

    """
    from envdoctor.model.facts import Absence, Facts, Unavailable
    from envdoctor.probes import environment

    examined = environment.find_environment(python=plan.python, prefix=plan.prefix)

    from envdoctor.probes import distributions, environ, jit_cache, library_files, loader, nvml, torch_build
    from envdoctor.probes.errand import Errand

    with ExitStack() as running:
        # NVML can hang on a sick host, so a child with a deadline asks it; it works while the files are read.
        inquiry = None if plan.gpus else nvml.start_inquiry()
        if inquiry:
            running.callback(inquiry.stop)

        installed = _attempt(lambda: distributions.find_distributions(examined))
        variables = environ.read_variables()
        torch = _attempt(lambda: torch_build.read_torch_build(examined, installed))
        jit_extensions = _attempt(lambda: jit_cache.find_jit_extensions(examined, torch, variables))
        found = library_files.find_libraries(examined, torch)
        # The loader takes longer than everything else, and needs no more than this.
        installation = loader.Installation(
            environment=examined,
            distributions=() if isinstance(installed, Unavailable) else installed,
            torch=torch,
            libraries=found,
            variables=variables,
            jit_libraries=tuple(jit_cache.find_jit_libraries(jit_extensions, torch)),
        )
        errand = Errand(
            lambda: Facts(
                loader=_attempt(lambda: loader.find_loader(installation, kb)),
                foreign_modules=_attempt(lambda: loader.find_foreign(installation)),
            )
        )
        running.callback(errand.stop)

        # Imported now, while the errand is run.
        from envdoctor.probes import (
            companions,
            contested_files,
            cupy,
            extensions,
            host,
            launchers,
            libraries,
            named_gpus,
            records,
            shadows,
            toolchain,
            triton,
        )

        named = named_gpus.find_named_gpus(plan.gpus, kb)
        device_code = _attempt(
            lambda: (
                *libraries.find_device_code(found, installed, torch, deep=plan.deep),
                *jit_cache.read_jit_device_code(jit_extensions, deep=plan.deep),
            )
        )
        machine = _attempt(host.read_host)

        facts = Facts(
            environment=examined,
            distributions=installed,
            torch=torch,
            triton=_attempt(lambda: triton.read_triton_build(examined, installed, variables)),
            companions=_attempt(lambda: companions.find_companions(examined, installed)),
            contested_folders=_attempt(lambda: contested_files.find_contested_folders(installed)),
            cupy=_attempt(lambda: cupy.read_cupy_build(examined, installed, variables)),
            device_code=device_code,
            cpu_only_extensions=_attempt(lambda: extensions.find_cpu_only_extensions(examined, installed, torch, kb)),
            jit_extensions=jit_extensions,
            damaged_installations=_attempt(lambda: records.find_damaged_installations(installed)),
            contested_projects=_attempt(lambda: records.find_contested_projects(examined, installed)),
            shadowed_modules=_attempt(lambda: shadows.find_shadowed_modules(examined, variables)),
            launchers=_attempt(lambda: launchers.find_launchers(examined)),
            host=machine,
            variables=variables,
            toolchain=_attempt(lambda: toolchain.read_toolchain(variables)),
        )
        if inquiry is None:
            nowhere = Unavailable(_NOT_HERE, Absence.NOT_APPLICABLE)
            unnamed = Unavailable(f"{_NOT_HERE}: name the driver of their host with --driver", Absence.NOT_APPLICABLE)
            driver = named_gpus.named_driver(plan.driver, kb) if plan.driver else unnamed
            facts = replace(facts, gpus=named, driver=driver, nvml=nowhere, peer_access=nowhere)
        else:
            answer = inquiry.finish()
            facts = replace(
                facts,
                gpus=answer.gpus,
                nvml=answer.session,
                peer_access=answer.peer_access,
                driver=_attempt(lambda: host.read_driver(machine, answer)),
            )
        meanwhile(facts)
        late = _attempt(errand.finish)
    return replace(
        facts,
        loader=late if isinstance(late, Unavailable) else late.loader,
        foreign_modules=late if isinstance(late, Unavailable) else late.foreign_modules,
    )


def _attempt(probe: Callable[[], T]) -> "T | Unavailable":
    from envdoctor.model.facts import Unavailable

    try:
        return probe()
    except (ProbeError, OSError) as exc:
        return Unavailable(str(exc))
