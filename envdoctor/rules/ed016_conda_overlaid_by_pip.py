"""conda believes in one version of a project, and another one lies there."""

import shlex

from envdoctor.model.facts import Environment
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity
from envdoctor.model.installation import ContestedProject
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._reinstall import reinstall

_MOST_NAMED = 5


@rule("ED016", Severity.WARNING, "conda and another installer own different versions of one project")
def conda_overlaid_by_pip(environment: Environment, contested_projects: tuple[ContestedProject, ...]) -> Conclusions:
    """
    ## What it means
    conda recorded one version of a project, and pip (or another installer) put another one into the same environment.
    The import runs a mixture where files of both are left. The next `conda install` or `conda update` works with its
    own record, and may put its files back among the others.

    ## How envdoctor knows
    It compares the records in `conda-meta` with the metadata in the site-packages, and the files of conda's package
    that are still there with the list of the other installer.

    ## Why it happens
    `pip install -r requirements.txt` in a conda environment replaced what conda had installed, often as a requirement
    of something else.

    ## How to fix it
    Let one of them own it: remove conda's package, then install with pip what is wanted. A new environment is safest.

    ## When to ignore it
    When conda will not be used in this environment again, and nothing of its package is left.
    """
    if environment.kind != "conda":
        yield NotApplicable("this is not a conda environment")
        return
    for one in contested_projects:
        conda_name = one.conda_record.rpartition("/")[2].removesuffix(".json").rsplit("-", 2)[0]
        yield Finding(
            message=f"conda recorded `{conda_name}` {one.conda_version}, and {one.installer} installed {one.name} "
            f"{one.version} in its place",
            evidence=(
                Evidence(source="conda-meta", value=one.conda_record),
                Evidence(source=one.installer, value=one.metadata_path),
                *(Evidence(source="left of conda's package", value=path) for path in one.survivors[:_MOST_NAMED]),
                *_count_others(one),
            ),
            remedy=Remedy(
                summary="let one of them own it: remove conda's package, and install again what is wanted",
                commands=(
                    f"conda remove --force --prefix {shlex.quote(environment.prefix)} {conda_name}",
                    reinstall(one.name, one.version, environment),
                ),
            ),
        )


def _count_others(project: ContestedProject) -> tuple[Evidence, ...]:
    others = project.survivor_count - _MOST_NAMED
    return (Evidence(source="left of conda's package", value=f"{others} more"),) if others > 0 else ()
