"""How rules speak of compiled modules that were built for another Python."""

from envdoctor.model.finding import Remedy
from envdoctor.model.loading import ForeignModule
from envdoctor.rules._load_remedies import renew_for_python
from envdoctor.rules._load_scene import Scene
from envdoctor.rules._load_stories import name_python


def describe_owner(owner: str, scene: Scene) -> str:
    """Name a distribution with its version."""
    return f"{owner} {scene.version_of(owner)}".strip()


def say_what_is_seen(module: ForeignModule) -> str:
    """Return what Python says when the module is imported."""
    return f"ModuleNotFoundError: No module named '{module.module}', or that it cannot be imported"


def name_tag(tag: str, scene: Scene) -> str:
    """Write ``cpython-38-x86_64-linux-gnu`` as people name that Python, and the machine where it alone differs."""
    implementation, _, rest = tag.partition("-")
    abi, _, platform = rest.partition("-")
    number = abi.rstrip("dmu")
    if implementation != "cpython" or not number[:1].isdigit() or not number[1:].rstrip("t").isdigit():
        return f"another Python ({tag})"
    python = f"Python {number[0]}.{number[1:]}"
    return f"{python} on {platform}" if python == name_python(scene.environment) else python


def install_for_this_python(owner: str, tag: str, scene: Scene) -> Remedy:
    """Say how the distribution and the Python come together."""
    python = name_python(scene.environment)
    return Remedy(
        summary=f"install the {owner} that was built for {python}, or make an environment with {name_tag(tag, scene)}",
        commands=renew_for_python(owner, scene),
    )
