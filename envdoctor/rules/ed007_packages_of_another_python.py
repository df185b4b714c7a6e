"""PYTHONPATH leads into the packages of another Python."""

import re

from envdoctor.model.facts import Environment
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.rules._overrides import PYTHONPATH, folders_of, shorten_pythonpath

_PACKAGES = re.compile(r"/python(\d)\.(\d+)t?/(?:site|dist)-packages(?:/|$)")


@rule("ED007", Severity.WARNING, "PYTHONPATH leads to the packages of another Python version")
def packages_of_another_python(environment: Environment) -> Conclusions:
    """
    ## What it means
    A folder of `PYTHONPATH` holds what was installed for another version of Python, and comes before the environment's
    own packages. Compiled modules there do not load (`dynamic module does not define module export function`,
    `undefined symbol: PyCObject_Type`, `No module named 'numpy.core._multiarray_umath'`); modules in Python may be
    written in another version of the language.

    ## How envdoctor knows
    The path names its Python (`lib/python2.7/dist-packages`), and the examined interpreter is another one.

    ## Why it happens
    The `setup.bash` of ROS before Noetic puts `/opt/ros/.../lib/python2.7/dist-packages` on `PYTHONPATH`, for every
    Python that is started afterwards. So do modules of clusters, and lines in `~/.bashrc` that outlived an upgrade.

    ## How to fix it
    Take the folder off `PYTHONPATH` for the job. To install the package once more in the environment changes nothing:
    `PYTHONPATH` still comes first.

    ## When to ignore it
    When the folder holds nothing but modules in Python that suit both versions.
    """
    folders = folders_of(environment, PYTHONPATH)
    if not folders:
        yield NotApplicable("PYTHONPATH names no folder")
        return
    version = environment.python_version
    if not isinstance(version, tuple):
        yield Undecided(f"the version of the examined Python: {version.reason}")
        return
    places = {folder: _PACKAGES.search(folder) for folder in folders}
    foreign = {
        folder: ".".join(place.groups())
        for folder, place in places.items()
        if place and tuple(map(int, place.groups())) != version[:2]
    }
    if foreign:
        yield Finding(
            message=f"PYTHONPATH leads Python {version[0]}.{version[1]} to packages of Python "
            f"{', '.join(sorted(set(foreign.values())))}",
            evidence=tuple(
                Evidence(source="PYTHONPATH", value=f"{folder}, of Python {python}")
                for folder, python in foreign.items()
            ),
            remedy=Remedy(
                summary="take these folders off PYTHONPATH; to install their packages once more in the environment "
                "changes nothing",
                commands=(shorten_pythonpath(environment, foreign),),
            ),
        )
