"""A library cannot be loaded, and nothing shows that a job imports it."""

from collections.abc import Iterator

from envdoctor.kb import KnowledgeBase
from envdoctor.model.facts import DeviceCode, Distribution, Environment, Host, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Severity
from envdoctor.model.loading import ForeignModule, Loader
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._coverage import short_path
from envdoctor.rules._foreign_modules import describe_owner, install_for_this_python, name_tag, say_what_is_seen
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import conclude_standing, name_python
from envdoctor.rules._load_verdicts import Standing
from envdoctor.rules._overrides import find_pythonpath_folder

_SHOWN = 3


@rule("ED314", Severity.WARNING, "a library cannot be loaded, but may not be used")
def unproven_load_failure(
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
    The dynamic loader would refuse a library of the environment. No statement was found that certainly imports it: it
    may be imported inside a function, or under a condition, or after something that brings what it lacks. Or it is one
    that torch compiled (`torch.utils.cpp_extension.load`) and keeps: a job that asks for it gets it as it is, unless
    its sources or flags have changed.

    Or all compiled modules of a package are tagged for another Python, which does not see them: `import PIL` goes well,
    `import PIL.Image` does not.

    ## How envdoctor knows
    It does from files what the dynamic loader does. It reports only what healthy environments do not have: parts of a
    file that are missing, a glibc or libstdc++ that is too old, a CUDA for an extension of torch that lies nowhere. Of
    torch's cache it asks for what was compiled with the headers of this very torch: ED215 is about the rest.

    ## Why it happens
    As with extensions whose import certainly fails.

    ## How to fix it
    As there: install the build that fits what is installed, or build it anew.

    ## When to ignore it
    When the job does not use the library.
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
    yield from conclude_standing(Standing.SUSPECTED, scene, "; nothing shows whether it is used")
    yield from _judge_foreign_modules(foreign_modules, scene)


def _judge_foreign_modules(modules: tuple[ForeignModule, ...], scene: Scene) -> Iterator[Finding]:
    """Judge distributions whose compiled modules are all for another Python: some of them may do without any."""
    owners: dict[str, list[ForeignModule]] = {}
    for module in sorted(modules, key=lambda module: module.library):
        # ED004 and ED007 speak of what PYTHONPATH brings, ED021 of torch.
        if not module.has_siblings and not find_pythonpath_folder(module.library, scene.environment):
            owners.setdefault(module.distribution, []).append(module)
    for owner, found in owners.items():
        if owner == "torch" or any(module.import_chain for module in found):
            continue
        yield Finding(
            message=f"{describe_owner(owner, scene)} was built for {name_tag(found[0].tag, scene)}; "
            f"{name_python(scene.environment)} sees none of its compiled modules",
            evidence=(
                *(Evidence(source=short_path(each.library), value=f"tagged {each.tag}") for each in found[:_SHOWN]),
                Evidence(source="what is seen instead", value=say_what_is_seen(found[0])),
            ),
            remedy=install_for_this_python(owner, found[0].tag, scene),
        )
