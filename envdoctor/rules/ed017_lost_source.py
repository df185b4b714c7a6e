"""An editable installation whose source folder is gone."""

from envdoctor.kb.torch_choice import pip_uninstall
from envdoctor.model.facts import Distribution, Environment
from envdoctor.model.finding import Evidence, Finding, Remedy, Severity
from envdoctor.model.rule import Conclusions, rule


@rule("ED017", Severity.WARNING, "the source folder of an editable installation is gone")
def lost_source(distributions: tuple[Distribution, ...], environment: Environment | None = None) -> Conclusions:
    """
    ## What it means
    `pip install -e` and `setup.py develop` leave a link to a folder instead of files. The folder is not there any more.
    `pip list` shows the distribution, and importing it fails with `No module named ...`.

    ## How envdoctor knows
    It follows `direct_url.json` and `*.egg-link` to the folder.

    ## Why it happens
    The checkout was moved, renamed or deleted; it lies on a disk that is not mounted here; the environment was copied
    from another machine or out of a container.

    ## How to fix it
    Install it again from where the checkout lies, or uninstall it.

    ## When to ignore it
    When the folder will be mounted where the job runs.
    """
    for one in distributions:
        if one.source_is_gone:
            yield Finding(
                message=f"`{one.name}` is installed from `{one.editable_root}`, which is gone",
                evidence=(Evidence(source=one.metadata_path, value=one.editable_root),),
                remedy=Remedy(
                    summary="install it again with `pip install -e` from where the checkout lies, or uninstall it",
                    commands=pip_uninstall(environment, one.name),
                ),
            )
