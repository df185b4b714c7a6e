import shlex
from dataclasses import replace

import pytest
from packaging.requirements import Requirement

from envdoctor import kb
from envdoctor.kb.torch_builds import TorchBuildRow
from envdoctor.kb.torch_choice import TorchWish, find_torch_remedy
from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import Distribution, MetadataKind, SearchEntry, Unavailable
from envdoctor.model.finding import Remedy
from tests.builders import a_distribution, a_driver, a_host, a_library, a_torch, an_environment

INDEX = "https://download.pytorch.org/whl"
KB = kb.load()


def a_wish(
    torch: str,
    capability: str,
    *,
    python: str = "3.10.13",
    driver: str = "",
    glibc: str = "2.35",
    beside: str = "",
    distributions: tuple[Distribution, ...] = (),
) -> TorchWish:
    version = tuple(map(int, python.split(".")))
    return TorchWish(
        installed=a_torch(torch),
        capability=ComputeCapability.parse(capability),
        beside=tuple(map(ComputeCapability.parse, beside.split())),
        environment=an_environment(python_version=version, extension_suffixes=(".so",)),
        distributions=distributions,
        driver=a_driver(driver) if driver else None,
        host=a_host(glibc=glibc),
    )


def requirements_of(remedy: Remedy) -> str:
    words = shlex.split(remedy.commands[-1])
    return " ".join(word for word in words if "==" in word)


@pytest.mark.parametrize(
    ("torch", "capability", "python", "chosen"),
    [
        # https://github.com/MRzzm/DINet/issues/100: RTX 3090
        ("1.7.1+cu101", "8.6", "3.7.16", f"torch==1.7.1+cu110 --find-links {INDEX}/torch_stable.html"),
        # https://github.com/QData/C-Tran/issues/30: RTX 4090
        ("1.10.2+cu102", "8.9", "3.8.18", f"torch==1.10.2+cu111 --find-links {INDEX}/torch_stable.html"),
        # https://github.com/HybridRobotics/berkeley-humanoid-lite/issues/49: RTX 5090
        ("2.5.1+cu121", "12.0", "3.10.13", f"torch==2.7.1+cu128 --index-url {INDEX}/cu128"),
        # https://github.com/jhj0517/Whisper-WebUI/issues/653: a Pascal card
        ("2.8.0+cu128", "6.1", "3.10.13", f"torch==2.8.0+cu126 --index-url {INDEX}/cu126"),
        # https://github.com/pytorch/pytorch/issues/172352: V100
        ("2.11.0+cu128", "7.0", "3.10.13", f"torch==2.11.0+cu126 --index-url {INDEX}/cu126"),
        # https://github.com/SupreethN/HOISTFormer/issues/3: a CPU build
        ("1.9.0+cpu", "8.6", "3.8.18", f"torch==1.9.0+cu111 --find-links {INDEX}/torch_stable.html"),
        ("2.0.0+cu117", "9.0", "3.8.18", f"torch==2.0.0+cu118 --index-url {INDEX}/cu118"),
        ("1.12.1+cu102", "8.6", "3.8.18", f"torch==1.12.1+cu113 --extra-index-url {INDEX}/cu113"),
    ],
)
def test_names_the_build_that_solved_the_case(torch: str, capability: str, python: str, chosen: str) -> None:
    remedy = find_torch_remedy(a_wish(torch, capability, python=python), KB)

    assert remedy.commands == (f"/opt/env/bin/python -m pip install {chosen}",)
    assert not remedy.needs_admin


@pytest.mark.parametrize(
    ("driver", "chosen"),
    [
        ("580.65.06", "torch==2.13.0+cu130"),  # the default build
        ("550.54.15", "torch==2.13.0+cu126"),  # minor-version compatibility
        ("470.82.01", "torch==2.7.1+cu118"),  # nothing newer runs there
    ],
)
def test_takes_what_the_driver_runs(driver: str, chosen: str) -> None:
    remedy = find_torch_remedy(a_wish("2.13.0+cpu", "8.6", driver=driver), KB)

    assert requirements_of(remedy) == chosen


def test_asks_for_another_host_when_no_build_runs_on_the_driver() -> None:
    remedy = find_torch_remedy(a_wish("2.5.1+cu121", "12.0", driver="470.82.01"), KB)

    assert remedy.needs_admin
    # torch 1.7.1+cu101 for older Pythons would do on an older driver.
    assert "every torch for Python 3.10 with code for 12.0 needs a newer driver than 470.82.01" in remedy.summary
    assert "redeploy on a host with driver 570 or newer" in remedy.summary  # CUDA 12 runs on 525, which knows no 12.0
    assert requirements_of(remedy) == "torch==2.7.1+cu128"


def test_names_the_driver_that_the_build_needs_when_none_is_known() -> None:
    remedy = find_torch_remedy(a_wish("2.13.0+cpu", "8.9"), KB)

    assert "it needs driver 580 or newer; for an older one, from 525.60.13 on, take 2.13.0+cu126" in remedy.summary


def test_says_which_python_has_a_build_when_this_one_has_none() -> None:
    remedy = find_torch_remedy(a_wish("2.0.1+cu118", "12.0", python="3.8.18"), KB)

    assert remedy.commands == ()
    assert remedy.summary == (
        "no torch with code for 12.0 runs on Python 3.8: make an environment with another; "
        "torch 2.7.1+cu128 exists for Python 3.9 to 3.13"
    )


def test_names_the_python_of_a_build_that_the_driver_runs() -> None:
    remedy = find_torch_remedy(a_wish("2.9.0+cpu", "9.0", python="3.7.16", driver="470.82.01"), KB)

    assert "torch 2.7.1+cu118 exists for Python 3.9 to 3.13" in remedy.summary  # not 2.9.0+cu128


def test_offers_another_python_where_only_that_has_a_build_for_the_driver() -> None:
    remedy = find_torch_remedy(a_wish("2.15.0+cu132", "8.9", python="3.15.0", driver="550.54.15"), KB)

    assert "redeploy on a host with driver 580 or newer, then install torch 2.15.0+cu130" in remedy.summary
    assert remedy.summary.endswith("or make an environment with Python 3.10 to 3.14: torch 2.14.1+cu126 runs here")
    assert not remedy.needs_admin


def test_tells_a_free_threaded_python_apart() -> None:
    environment = an_environment(python_version=(3, 13, 0), extension_suffixes=(".cpython-313t-x86_64-linux-gnu.so",))
    wish = TorchWish(installed=a_torch("2.13.0+cpu"), capability=ComputeCapability(8, 9), environment=environment)

    # torch ended its wheels for 3.13t with 2.12.0.
    assert "torch==2.12.0+cu130" in find_torch_remedy(wish, KB).commands[0]


@pytest.mark.parametrize("version", ["x", "", "1" * 5000], ids=["word", "empty", "long"])
def test_versions_that_are_none_do_not_keep_it_from_a_remedy(version: str) -> None:
    requires = (f"torch>={version}", "torch>1; sys_platform ~= 'linux'", f"torch>1; python_version > '{version}'")
    wish = a_wish(version, "8.9", glibc=version, distributions=(a_distribution("x", requires=requires),))

    assert find_torch_remedy(wish, KB).commands


def test_asks_for_a_newer_system_when_glibc_is_too_old() -> None:
    remedy = find_torch_remedy(a_wish("2.6.0+cu124", "12.0", glibc="2.27"), KB)

    assert remedy.needs_admin
    assert "every torch for Python 3.10 with code for 12.0 needs a newer glibc than 2.27" in remedy.summary
    assert "glibc 2.28 or newer" in remedy.summary


def test_replaces_the_companions_in_the_same_command() -> None:
    companions = (a_distribution("torchvision", "0.8.2"), a_distribution("torchaudio", "0.7.2"))
    remedy = find_torch_remedy(a_wish("1.7.1+cu101", "8.6", python="3.7.16", distributions=companions), KB)

    # As in pytorch.org's list of previous versions, where torchaudio has no tag.
    assert requirements_of(remedy) == "torch==1.7.1+cu110 torchvision==0.8.2+cu110 torchaudio==0.7.2"


def test_leaves_the_version_of_an_unknown_companion_to_pip() -> None:
    companions = (a_distribution("torchtext", "0.18.0", requires=("torch>=2.3.0",)),)
    remedy = find_torch_remedy(a_wish("2.5.1+cu121", "12.0", distributions=companions), KB)

    assert "torch==2.7.1+cu128 torchtext --index-url" in remedy.commands[0]


@pytest.mark.parametrize(
    ("requires", "chosen"),
    [
        ("torch<2.8,>=2.2", "torch==2.7.1+cu128"),
        ("torch (>=2.8)", "torch==2.7.1+cu128"),  # broken before: the installed 2.6.0 does not meet it either
        ("torch>=1.6.*,<9", "torch==2.7.1+cu128"),  # what pip of its time accepted; it pins nothing
        ("torch!=2.7.0,!=2.7.1", "torch==2.8.0+cu128"),
        ('torch==2.6.0; extra == "all"', "torch==2.7.1+cu128"),
        ('torch==2.6.0; python_version < "3.9"', "torch==2.7.1+cu128"),
        ("torchmetrics==1.0", "torch==2.7.1+cu128"),
    ],
)
def test_keeps_the_pins_that_hold(requires: str, chosen: str) -> None:
    distributions = (a_distribution("somebody", "1.0", requires=(requires,)),)
    remedy = find_torch_remedy(a_wish("2.6.0+cu124", "12.0", distributions=distributions), KB)

    assert requirements_of(remedy) == chosen
    assert "somebody" not in remedy.summary


def test_names_the_pins_that_no_build_satisfies() -> None:
    distributions = (a_distribution("xformers", "0.0.29", requires=("torch==2.6.0",)),)
    remedy = find_torch_remedy(a_wish("2.6.0+cu124", "12.0", distributions=distributions), KB)

    assert "no build satisfies xformers (`torch==2.6.0`), so replace that too" in remedy.summary


def test_says_when_the_only_build_is_not_certain() -> None:
    # 2.13.0+cu126 has no code for 12.0, and +cu130 needs driver 580.
    pinned = (a_distribution("somebody", "1.0", requires=("torch==2.13.0",)),)
    remedy = find_torch_remedy(a_wish("2.13.0+cu126", "12.0", driver="570.86.10", distributions=pinned), KB)

    assert requirements_of(remedy) == "torch==2.13.0+cu129"
    assert "that this build exists and has that code is not certain" in remedy.summary


def test_reads_pins_though_the_python_is_not_known() -> None:
    wish = TorchWish(
        installed=a_torch("2.6.0+cu124"),
        capability=ComputeCapability(12, 0),
        distributions=(a_distribution("somebody", "1.0", requires=("torch<2.8",)),),
    )

    assert "torch==2.7.1+cu128" in find_torch_remedy(wish, KB).commands[0]


def test_names_a_distribution_once_that_is_pinned_and_compiled() -> None:
    wish = replace(
        a_wish(
            "2.6.0+cu124",
            "12.0",
            distributions=(a_distribution("xformers", "0.0.29", requires=("torch==2.6.0",)),),
        ),
        device_code=(a_library("sm_86", distribution="xformers", needed=("libc10.so",)),),
    )

    assert find_torch_remedy(wish, KB).summary.count("xformers") == 1


def test_never_offers_what_is_installed() -> None:
    # A build of somebody's own with the number of a release, whose arch list is shorter than the table says.
    remedy = find_torch_remedy(a_wish("2.8.0+cu128", "12.0"), KB)

    assert requirements_of(remedy) == "torch==2.8.0+cu129"


def test_ignores_the_pins_of_a_distribution_that_is_hidden_by_another() -> None:
    hidden = a_distribution("somebody", "0.9", requires=("torch==2.6.0",), shadowed_by="/elsewhere")
    remedy = find_torch_remedy(a_wish("2.6.0+cu124", "12.0", distributions=(hidden,)), KB)

    assert "somebody" not in remedy.summary


def test_serves_the_other_gpus_too_where_one_build_can() -> None:
    remedy = find_torch_remedy(a_wish("2.6.0+cu118", "12.0", beside="7.0"), KB)

    assert requirements_of(remedy) == "torch==2.8.0+cu128"  # 2.7.1+cu128 would do for the 12.0 alone


def test_says_when_no_build_serves_the_other_gpus() -> None:
    remedy = find_torch_remedy(a_wish("2.9.0+cu130", "6.1", beside="12.0"), KB)

    assert requirements_of(remedy) == "torch==2.9.0+cu126"
    assert "no build serves 12.0 as well" in remedy.summary


def test_lists_the_gpus_that_a_build_serves() -> None:
    remedy = find_torch_remedy(a_wish("2.9.0+cpu", "8.9", beside="8.6 6.1"), KB)

    assert "install torch 2.9.0+cu126, the same release with code for 8.9, 8.6 and 6.1" in remedy.summary


def test_prefers_another_release_that_is_certain_and_names_the_nearer_one() -> None:
    remedy = find_torch_remedy(a_wish("2.13.0+cu126", "12.0", driver="570.86.15"), KB)

    assert requirements_of(remedy) == "torch==2.11.0+cu128"
    assert "2.13.0+cu129 may exist too" in remedy.summary


@pytest.mark.parametrize(
    ("torch", "chosen"),
    [
        ("2.13.0.dev20260601+cu126", "install torch 2.13.0+cu130, the nearest newer release"),  # a nightly build
        ("2.12.1.post103", "install torch 2.12.1+cu130, the same release"),  # conda-forge's number of a build
    ],
)
def test_tells_nightly_builds_from_releases(torch: str, chosen: str) -> None:
    assert find_torch_remedy(a_wish(torch, "12.0"), KB).summary.startswith(chosen)


def test_names_the_extensions_that_were_compiled_against_torch() -> None:
    wish = TorchWish(
        installed=a_torch("2.6.0+cu124"),
        capability=ComputeCapability(12, 0),
        device_code=(
            a_library("sm_86", needed=("libc10.so", "libtorch_cpu.so")),
            a_library("sm_86", distribution="bitsandbytes", needed=("libcudart.so.12",)),
        ),
    )

    assert "then build or install mmcv anew for it" in find_torch_remedy(wish, KB).summary


def test_removes_the_build_of_conda_first() -> None:
    conda = [
        a_distribution(name, version, metadata_kind=MetadataKind.CONDA_META, installer="conda")
        for name, version in (("pytorch", "1.4.0"), ("cpuonly", "1.0"), ("torchvision", "0.5.0"), ("numpy", "1.18.1"))
    ]
    wish = a_wish("1.4.0+cpu", "7.5", python="3.7.16", distributions=tuple(conda))

    assert find_torch_remedy(wish, KB).commands == (
        "conda remove --prefix /opt/env cpuonly pytorch torchvision",
        "/opt/env/bin/python -m pip install torch==1.4.0 torchvision==0.5.0",
    )


def test_replaces_a_build_without_a_tag_and_nothing_else() -> None:
    remedy = find_torch_remedy(a_wish("1.4.0+cpu", "7.5", python="3.7.16"), KB)

    # pip takes the other build for installed; without --no-deps it would bring the newest NumPy.
    assert remedy.commands == ("/opt/env/bin/python -m pip install --force-reinstall --no-deps torch==1.4.0",)


# pip with --prefix uninstalls from the Python that it runs in, unless it is told to ignore what is installed there.
@pytest.mark.parametrize(
    ("kind", "option"),
    [("bare site-packages", "--upgrade --target"), ("conda", "--ignore-installed --prefix")],
)
def test_installs_from_outside_where_there_is_no_interpreter(kind: str, option: str) -> None:
    environment = an_environment(interpreter=Unavailable("not here"), prefix="/srv/old packages", kind=kind)
    wish = TorchWish(installed=a_torch("2.13.0+cpu"), capability=ComputeCapability(8, 9), environment=environment)

    assert (
        find_torch_remedy(wish, KB)
        .commands[0]
        .startswith(f"python3.10 -m pip install {option} '/srv/old packages' torch==")
    )


USER_SITE = "/home/user/.local/lib/python3.10/site-packages"


def a_wish_with_torch_in(
    folder: str, origin: str, *, kind: str = "conda", distributions: tuple[Distribution, ...] = ()
) -> TorchWish:
    search_path = (SearchEntry(path=folder, origin=origin), *an_environment().search_path)
    return TorchWish(
        installed=a_torch("1.13.1+cu117", root=f"{folder}/torch"),
        capability=ComputeCapability(9, 0),
        environment=an_environment(kind=kind, search_path=search_path),
        distributions=distributions,
    )


def test_keeps_the_user_site_out_before_it_installs_into_a_conda_environment() -> None:
    """Reinstalling alone is the advice that does not help: the copy in the user site still comes first."""
    remedy = find_torch_remedy(a_wish_with_torch_in(USER_SITE, "user site"), KB)

    assert remedy.summary.startswith(f"torch lies in {USER_SITE} (user site), before the environment's own packages")
    assert remedy.commands[0] == "export PYTHONNOUSERSITE=1"
    assert requirements_of(remedy) == "torch==2.0.1+cu118"


def test_uncovers_the_torch_that_the_environment_has() -> None:
    """https://github.com/PKU-YuanGroup/Open-Sora-Plan/issues/39."""
    hidden = a_distribution("torch", "2.1.2+cu121", shadowed_by=f"{USER_SITE}/torch-1.13.1+cu117.dist-info")
    remedy = find_torch_remedy(a_wish_with_torch_in(USER_SITE, "user site", distributions=(hidden,)), KB)

    assert remedy.summary.endswith("the environment's own torch 2.1.2+cu121 comes to light; check it then")
    assert remedy.commands == ("export PYTHONNOUSERSITE=1",)


def test_takes_a_folder_out_of_pythonpath() -> None:
    remedy = find_torch_remedy(a_wish_with_torch_in("/srv/shared", "PYTHONPATH", kind="venv"), KB)

    assert "torch lies in /srv/shared (PYTHONPATH)" in remedy.summary
    assert "take it out of PYTHONPATH" in remedy.summary
    assert remedy.commands[0] == "unset PYTHONPATH"
    assert requirements_of(remedy) == "torch==2.0.1+cu118"


def test_installs_where_the_user_site_comes_later_or_pip_installs_to_it() -> None:
    remedy = find_torch_remedy(a_wish_with_torch_in(USER_SITE, "user site", kind="system"), KB)

    assert len(remedy.commands) == 1


def test_knows_no_build_for_a_card_that_torch_never_served() -> None:
    remedy = find_torch_remedy(a_wish("1.0.0+cu90", "3.0"), KB)

    assert remedy.commands == ()
    assert "no torch build is known that has code for 3.0" in remedy.summary


def test_claims_no_more_than_the_tables_know_of_other_machines() -> None:
    wish = TorchWish(
        installed=a_torch("2.5.1+cpu"),
        capability=ComputeCapability(9, 0),
        environment=an_environment(platform="linux-aarch64"),
        driver=a_driver("550.54.15"),
    )

    assert "the nearest newer release known here with code for 9.0" in find_torch_remedy(wish, KB).summary


def test_takes_a_folder_of_packages_for_one_of_the_usual_platform() -> None:
    wish = TorchWish(
        installed=a_torch("1.10.2+cu102"),
        capability=ComputeCapability(8, 9),
        environment=an_environment(platform="", python_version=Unavailable("a bare site-packages")),
        driver=a_driver("535.161.07"),
    )

    assert find_torch_remedy(wish, KB).summary == "install torch 1.10.2+cu111, the same release with code for 8.9"


@pytest.mark.parametrize("platform", ["win-amd64", "macosx-11.0-arm64"])
def test_knows_no_build_for_other_platforms(platform: str) -> None:
    wish = TorchWish(
        installed=a_torch("2.13.0+cpu"),
        capability=ComputeCapability(8, 9),
        environment=an_environment(platform=platform),
    )

    assert find_torch_remedy(wish, KB).commands == ()


def test_takes_a_version_that_no_standard_knows_for_an_old_one() -> None:
    wish = TorchWish(installed=a_torch("release-2021-03-14"), capability=ComputeCapability(8, 6))

    assert "torch==1.7.1+cu110" in find_torch_remedy(wish, KB).commands[0]


@pytest.mark.parametrize("row", KB.torch_builds(), ids=lambda row: f"{row.local_version}-{row.platform}")
def test_every_command_can_be_pasted(row: TorchBuildRow) -> None:
    wish = TorchWish(
        installed=a_torch(row.local_version),
        capability=ComputeCapability(8, 6),
        distributions=(a_distribution("torchvision", "0.1"), a_distribution("torchaudio", "0.1")),
    )
    words = shlex.split(find_torch_remedy(wish, KB).commands[0])

    assert all(Requirement(word) for word in words if word.startswith("torch"))
    assert not set("<>{}$") & set("".join(words))
