"""A container with the small default of shared memory."""

from envdoctor.model.facts import Gpu, Host, Unavailable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule

_DOCKER_DEFAULT = 64 << 20


@rule("ED121", Severity.INFO, "the container has little shared memory")
def small_shared_memory(host: Host, gpus: tuple[Gpu, ...] | None = None) -> Conclusions:
    """
    ## What it means
    `/dev/shm` has 64 MiB or less. DataLoader workers pass batches through it; when it is full they die with
    `DataLoader worker is killed by signal: Bus error`, sometimes only in the second epoch. NCCL uses it as well.

    ## How envdoctor knows
    It asks the file system at `/dev/shm` for its size, and it sees that this is a container.

    ## Why it happens
    64 MiB is docker's default.

    ## How to fix it
    Start the container with `--shm-size=8g` or `--ipc=host`. Where that is not possible, use `num_workers=0` or
    `torch.multiprocessing.set_sharing_strategy("file_system")`.

    ## When to ignore it
    When the job loads its data without workers and uses one GPU.
    """
    if gpus and all(gpu.is_named for gpu in gpus):
        yield NotApplicable("the job will run on another machine, that of the named cards")
        return
    if not host.container:
        yield NotApplicable("this is not a container")
        return
    if isinstance(host.shm_total, Unavailable):
        yield Undecided(f"size of /dev/shm: {host.shm_total.reason}")
        return
    if host.shm_total > _DOCKER_DEFAULT:
        return
    yield Finding(
        message=f"the container has {host.shm_total >> 20} MiB of shared memory, which DataLoader workers soon fill",
        evidence=(
            Evidence(source="size of /dev/shm", value=f"{host.shm_total >> 20} MiB"),
            Evidence(source=host.container_evidence, value=f"container: {host.container}"),
        ),
        remedy=Remedy(summary="start the container with `--shm-size=8g` or `--ipc=host`, or use num_workers=0"),
    )
