"""An extension in torch's build cache was compiled against another torch."""

import shlex

from envdoctor.model.facts import JitExtension, TorchBuild
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule


@rule("ED215", Severity.WARNING, "a cached extension was compiled against another torch")
def cached_extension_of_other_torch(jit_extensions: tuple[JitExtension, ...], torch: TorchBuild) -> Conclusions:
    """
    ## What it means
    torch keeps extensions that it compiled at first use. One of them was compiled with the headers of a torch in
    another environment. Loaded into this one it fails with `undefined symbol: ...`, or torch compiles it again each
    time the environments take turns, which takes minutes and `nvcc`.

    ## How envdoctor knows
    `build.ninja` in the extension's folder names the folder of the headers. It is not that of this torch.

    ## Why it happens
    Environments with the same Python and CUDA version share one cache in the home directory; before torch 1.10 all
    did.

    ## How to fix it
    Delete the folder, and give each environment a cache of its own with `TORCH_EXTENSIONS_DIR`.

    ## When to ignore it
    When both paths lead to the same torch, or the job does not use the extension.
    """
    own = _normalised(f"{torch.root}/include")
    for one in jit_extensions:
        if not one.library or not one.torch_include or _normalised(one.torch_include) == own:
            continue
        yield Finding(
            message=f"what torch keeps compiled of `{one.name}` was built against another torch",
            evidence=(
                Evidence(source=f"{one.folder}/build.ninja", value=one.torch_include),
                Evidence(source="this torch", value=f"{torch.root}/include"),
            ),
            remedy=Remedy(
                summary="delete it, torch compiles it again at first use (with nvcc); set TORCH_EXTENSIONS_DIR to a "
                "folder for each environment",
                commands=(f"rm -r {shlex.quote(one.folder)}",),
            ),
        )


def _normalised(folder: str) -> str:
    # In many environments lib64 is a link to lib.
    return folder.replace("/lib64/", "/lib/").rstrip("/")
