"""A package imports a compiled module that was built for another Python."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.loading import ForeignModule, Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import short_path
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause, name_python

_SHOWN = 3


@rule("ED309", Severity.ERROR, "an extension was built for another Python")
def extension_for_another_python(
    loader: Loader,
    kb: KnowledgeBase,
    foreign_modules: tuple[ForeignModule, ...] = (),
    torch: TorchBuild | None = None,
    environment: Environment | None = None,
    distributions: tuple[Distribution, ...] = (),
    device_code: tuple[DeviceCode, ...] = (),
    host: Host | None = None,
) -> Conclusions:
    """
    ## What it means
    Compiled modules fit one minor version of Python. One whose name is tagged for another, as
    `_ext.cpython-38-x86_64-linux-gnu.so` under Python 3.11, is not seen at all: `ModuleNotFoundError: No module named
    'mmcv._ext'`, although the file is there. One that is linked to `libpython3.8.so.1.0` fails with
    `cannot open shared object file`.

    ## How envdoctor knows
    It compares the tag in the name of the file with those that the interpreter looks for, and finds the statement that
    imports the module whenever the package is imported. Modules that only one version needs, and that another file
    replaces, are not counted.

    ## Why it happens
    An environment was copied, or its Python replaced. The package lies on PYTHONPATH for another Python. Or its maker
    offers binaries for some versions only, as of Isaac Gym.

    ## How to fix it
    Use the Python that it was built for, or build it for this one. Where only `libpython` of the right version is not
    found, tell the loader where it lies.

    ## When to ignore it
    When the job does not use the package.
    """
    scene = Scene(
        loader=loader,
        kb=kb,
        torch=torch,
        environment=environment,
        distributions=distributions,
        device_code=device_code,
        host=host,
    )
    yield from _judge_foreign_modules(foreign_modules, scene)
    yield from conclude_cause(Cause.OTHER_PYTHON, scene)


def _judge_foreign_modules(modules: tuple[ForeignModule, ...], scene: Scene) -> Iterator[Finding]:
    by_owner: dict[tuple[str, str], list[ForeignModule]] = {}
    for module in sorted(modules, key=lambda module: module.library):
        if module.import_chain:
            owner = module.distribution or module.module.partition(".")[0]
            by_owner.setdefault((owner, module.tag), []).append(module)
    for (owner, tag), found in by_owner.items():
        who = f"{owner} {scene.version_of(owner)}".strip()
        yield Finding(
            message=f"{who} was built for {_name(tag)}; {name_python(scene.environment)} does not see its "
            f"`{found[0].module}`",
            evidence=(
                *(Evidence(source=short_path(module.library), value=f"tagged {tag}") for module in found[:_SHOWN]),
                Evidence(source="imported by", value=", ".join(found[0].import_chain)),
                Evidence(
                    source="what is seen instead",
                    value=f"ModuleNotFoundError: No module named '{found[0].module}', or that it cannot be imported",
                ),
            ),
            remedy=Remedy(
                summary=f"install the {owner} that was built for {name_python(scene.environment)}, or make an "
                f"environment with {_name(tag)}"
            ),
        )


def _name(tag: str) -> str:
    """Write ``cpython-38-x86_64-linux-gnu`` as people name that Python."""
    number = tag.partition("-")[2].partition("-")[0].rstrip("dmu")
    is_cpython = tag.startswith("cpython-") and number[:1].isdigit() and number[1:].rstrip("t").isdigit()
    return f"Python {number[0]}.{number[1:]}" if is_cpython else f"another Python ({tag})"
