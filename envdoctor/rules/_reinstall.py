"""How to install once more what is installed already."""

import shlex

from envdoctor.kb.torch_choice import pip_install
from envdoctor.model.facts import Environment

_INDEX = "https://download.pytorch.org/whl/"


def requirement_of(name: str, version: str) -> str:
    """Name a release as `pip install` wants it; builds of torch that their version names are on an index of theirs."""
    pinned = shlex.quote(f"{name}=={version}") if version else name
    tag = version.partition("+")[2]
    is_of_pytorch = name in {"torch", "torchvision", "torchaudio"} and (tag == "cpu" or tag[2:].isdigit())
    return f"{pinned} --index-url {_INDEX}{tag}" if is_of_pytorch else pinned


def reinstall(name: str, version: str, environment: Environment | None) -> str:
    """Return the command that installs the same release over what is there, and nothing else."""
    return f"{pip_install(environment)} --force-reinstall --no-deps {requirement_of(name, version)}"
