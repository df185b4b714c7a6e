"""Reports to be rendered: one of everything, a healthy one, and two about nothing."""

from envdoctor.model.facts import Absence, Facts, Unavailable
from envdoctor.model.finding import Evidence, Finding, Outcome, Remedy, Report, Severity, Status
from envdoctor.model.rule import Conclusions, Rule, rule
from envdoctor.model.versions import CudaVersion
from tests.builders import (
    NO_TORCH,
    SITE_PACKAGES,
    a_driver,
    a_named_gpu,
    a_torch,
    an_environment,
    healthy_facts,
)


def judge_code(gpus: object, torch: object) -> Conclusions:  # noqa: ARG001  the names are the facts it needs
    yield from ()


def about_the_machine() -> Conclusions:
    yield from ()


def a_rule(code: str, severity: Severity, title: str, *, about_code: bool = False) -> Rule[...]:
    return rule(code, severity, title)(judge_code if about_code else about_the_machine)


NO_DEVICE_CODE = a_rule("ED901", Severity.ERROR, "torch has no device code for this GPU", about_code=True)
SLOW = a_rule("ED902", Severity.WARNING, "an extension is compiled on every start")
ODD = a_rule("ED903", Severity.INFO, "a cache is left over")
DRIVER_TOO_OLD = a_rule("ED904", Severity.ERROR, "the driver is too old")
BUSY = a_rule("ED905", Severity.ERROR, "a GPU is taken")
BUGGY = a_rule("ED906", Severity.ERROR, "this rule divides by zero")
HEALTHY = a_rule("ED907", Severity.ERROR, "a GPU is hot")
ABSENT = a_rule("ED908", Severity.WARNING, "triton is too old")

EXTENSION = f"{SITE_PACKAGES}/a_package_with_a_rather_long_name/ops/_ext.cpython-310-x86_64-linux-gnu.so"
MUTE = "NVML did not answer within 5 s: libnvidia-ml.so.1 was found in /usr/lib/x86_64-linux-gnu"


def failed(rule: Rule[...], *findings: Finding, reasons: tuple[str, ...] = ()) -> Outcome:
    return Outcome(rule=rule, status=Status.FAILED, findings=findings, reasons=reasons)


ERROR = Finding(
    message="`libtorch_cuda.so` has no device code for NVIDIA GeForce RTX 4090",
    evidence=(
        Evidence(source="--gpu 4090", value="compute capability 8.9"),
        Evidence(source="torch 1.10.2+cu102", value="sm_37 sm_50 sm_60 sm_61 sm_70 sm_75 compute_70 compute_75"),
    ),
    remedy=Remedy(
        summary="install a build that contains sm_80 or sm_86, for this Python and this driver",
        commands=(
            (
                "/opt/env/bin/python -m pip install torch==1.10.2+cu113 torchvision==0.11.3+cu113"
                " --extra-index-url https://download.pytorch.org/whl/cu113"
            ),
        ),
    ),
    gpus=(0,),
)
WARNING = Finding(
    message="an extension has only PTX for this card, so that the driver compiles it for minutes at every first start",
    evidence=(Evidence(source=EXTENSION, value="compute_70 in 12 of 12 containers | sm_70 <none>"),),
    remedy=Remedy(summary="ask for a driver of branch 525 or newer", needs_admin=True),
)
INFO = Finding(message="a cache of 3 GB is left over", evidence=(Evidence(source="~/.cache", value="3 GB"),))

EVERYTHING = Report(
    facts=healthy_facts(
        environment=an_environment(notes=("`home` of pyvenv.cfg is gone",)),
        torch=a_torch("1.10.2+cu102", "sm_37 sm_50 sm_60 sm_70", problems=("version.py could not be parsed",)),
        gpus=(a_named_gpu("8.9"), a_named_gpu("8.6", index=1, name="NVIDIA RTX A6000", source="--gpu a6000")),
        driver=a_driver("535.161.07", source="--driver", cuda_version=CudaVersion(12, 2)),
    ),
    outcomes=(
        failed(NO_DEVICE_CODE, ERROR),
        failed(SLOW, WARNING, reasons=("libbroken.so: truncated at offset 4096",)),
        failed(ODD, INFO),
        Outcome(rule=DRIVER_TOO_OLD, status=Status.UNKNOWN, reasons=(MUTE,)),
        Outcome(rule=BUSY, status=Status.UNKNOWN, reasons=(MUTE,)),
        Outcome(rule=BUGGY, status=Status.CRASHED, reasons=("ZeroDivisionError: division by zero",)),
        Outcome(rule=HEALTHY, status=Status.PASSED),
        Outcome(rule=ABSENT, status=Status.SKIPPED, reasons=("triton is not installed",)),
    ),
)

ALL_WELL = Report(
    facts=healthy_facts(),
    outcomes=(
        Outcome(rule=NO_DEVICE_CODE, status=Status.PASSED),
        Outcome(rule=HEALTHY, status=Status.PASSED),
    ),
)

NO_GPU = Report(
    facts=healthy_facts(
        torch=NO_TORCH,
        device_code=(),
        gpus=Unavailable("libnvidia-ml.so.1 was not found", Absence.NOT_APPLICABLE),
        driver=Unavailable("no NVIDIA driver is loaded", Absence.NOT_APPLICABLE),
    ),
    outcomes=(Outcome(rule=NO_DEVICE_CODE, status=Status.SKIPPED, reasons=("torch is not installed",)),),
)

NOTHING_INSTALLED = Report(
    facts=healthy_facts(torch=NO_TORCH, device_code=(), gpus=(a_named_gpu(),)),
    outcomes=(
        Outcome(rule=NO_DEVICE_CODE, status=Status.SKIPPED, reasons=("torch is not installed",)),
        Outcome(rule=HEALTHY, status=Status.PASSED),
    ),
)

NOTHING_KNOWN = Report(facts=Facts(gpus=Unavailable("NVML hung"), environment=Unavailable("denied")), outcomes=())

REPORTS = {
    "everything": EVERYTHING,
    "all-well": ALL_WELL,
    "no-gpu": NO_GPU,
    "nothing-installed": NOTHING_INSTALLED,
    "nothing-known": NOTHING_KNOWN,
}
