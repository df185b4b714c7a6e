"""A package imports a compiled module that was built for another Python."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Severity
from envdoctor.model.loading import ForeignModule, Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.wording import enumerate_all, name_first
from envdoctor.rules._coverage import short_path
from envdoctor.rules._foreign_modules import describe_owner, install_for_this_python, name_tag, say_what_is_seen
from envdoctor.rules._load_causes import Cause
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_cause, name_python
from envdoctor.rules._overrides import find_pythonpath_folder, take_off_pythonpath

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
    Use the Python that it was built for, or build it for this one. What lies on PYTHONPATH has to leave it: what is
    installed in the environment comes behind. Where only `libpython` of the right version is not found, tell the
    loader where it lies.

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
    by_owner: dict[tuple[str, str, str], list[ForeignModule]] = {}
    for module in sorted(modules, key=lambda module: module.library):
        if module.import_chain:
            folder = find_pythonpath_folder(module.library, scene.environment)
            owner = module.distribution or module.module.partition(".")[0]
            by_owner.setdefault((folder, module.tag, owner), []).append(module)
    by_folder: dict[tuple[str, str], dict[str, list[ForeignModule]]] = {}
    for (folder, tag, owner), found in by_owner.items():
        by_folder.setdefault((folder, tag), {})[owner] = found
    for (folder, tag), owners in by_folder.items():
        if folder and scene.environment and len(owners) > 1:
            yield _conclude_folder(folder, tag, owners, scene)
            continue
        for owner, found in owners.items():
            yield _conclude_owner(folder, tag, owner, found, scene)


def _conclude_folder(folder: str, tag: str, owners: dict[str, list[ForeignModule]], scene: Scene) -> Finding:
    """Tell of all that PYTHONPATH brings from one folder at once: they have one cause, and one way out."""
    assert scene.environment is not None
    who = [describe_owner(owner, scene) for owner in owners]
    modules = [found[0] for found in owners.values()]
    return Finding(
        message=f"{name_first(who)} on PYTHONPATH were built for {name_tag(tag, scene)}; "
        f"{name_python(scene.environment)} does not see their compiled modules",
        evidence=(
            Evidence(source="PYTHONPATH", value=folder),
            *(
                Evidence(source=short_path(module.library), value=f"imported by {', '.join(module.import_chain)}")
                for module in modules[:_SHOWN]
            ),
            *((Evidence(source="likewise", value=enumerate_all(who[_SHOWN:])),) if who[_SHOWN:] else ()),
            Evidence(source="what is seen instead", value=say_what_is_seen(modules[0])),
        ),
        remedy=take_off_pythonpath(folder, scene.environment),
    )


def _conclude_owner(folder: str, tag: str, owner: str, found: list[ForeignModule], scene: Scene) -> Finding:
    python = name_python(scene.environment)
    return Finding(
        message=f"{describe_owner(owner, scene)} was built for {name_tag(tag, scene)}; "
        f"{python} does not see its `{found[0].module}`",
        evidence=(
            *(Evidence(source=short_path(module.library), value=f"tagged {tag}") for module in found[:_SHOWN]),
            Evidence(source="imported by", value=", ".join(found[0].import_chain)),
            Evidence(source="what is seen instead", value=say_what_is_seen(found[0])),
        ),
        remedy=take_off_pythonpath(folder, scene.environment)
        if folder and scene.environment
        else install_for_this_python(owner, tag, scene),
    )
