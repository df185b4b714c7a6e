"""Several RTX 40 cards under a driver that gets peer-to-peer transfers between them wrong."""

from itertools import combinations

from envdoctor.model.arch import ComputeCapability
from envdoctor.model.facts import Driver, Gpu, PeerAccess, Variable
from envdoctor.model.finding import Evidence, Finding, NotApplicable, Remedy, Severity, Undecided
from envdoctor.model.rule import Conclusions, rule
from envdoctor.model.versions import DriverRelease
from envdoctor.model.visibility import find_visible_gpus, value_of
from envdoctor.rules._alike import indices
from envdoctor.rules._machine import is_geforce

_ADA = ComputeCapability(8, 9)
# accelerate refuses several RTX 40 cards before this release: `check_cuda_p2p_ib_support`, utils/environment.py.
_FIRST_SOUND_DRIVER = DriverRelease("550.40.07")
_OFFERED = "OK"  # NVML_P2P_STATUS_OK
_P2P = "NCCL_P2P_DISABLE"
_SWITCHES = (_P2P, "NCCL_IB_DISABLE")  # accelerate wants both


@rule("ED119", Severity.WARNING, "peer-to-peer transfers between RTX 40 cards may hang or copy zeros")
def peer_to_peer_on_ada_geforce(
    gpus: tuple[Gpu, ...],
    driver: Driver,
    variables: tuple[Variable, ...] = (),
    peer_access: tuple[PeerAccess, ...] = (),
) -> Conclusions:
    """
    ## What it means
    GeForce cards of the 40 series cannot read each other's memory over PCIe. Drivers before 550.40.07 said otherwise
    in some releases: multi-GPU jobs then hang in their first `all_reduce`, or copies between cards arrive as zeros.
    accelerate refuses to start on such a machine unless NCCL is told not to try.

    ## How envdoctor knows
    Two or more GeForce cards of compute capability 8.9 are visible, the driver is older than 550.40.07, NVML does not
    deny peer access between all of them, and `NCCL_P2P_DISABLE` is not 1.

    ## Why it happens
    The driver advertised a feature that the cards do not have.

    ## How to fix it
    Set `NCCL_P2P_DISABLE=1` and `NCCL_IB_DISABLE=1`, or use a host with driver 550.40.07 or newer. A copy
    `x.to("cuda:1")` between cards is not NCCL's: send it through the host's memory (`x.cpu().to("cuda:1")`) if it
    arrives as zeros.

    ## When to ignore it
    When the job uses one GPU.
    """
    visible = find_visible_gpus(gpus, variables).gpus
    cards = tuple(gpu for gpu in visible if not gpu.is_named and is_geforce(gpu) and gpu.compute_capability == _ADA)
    if len(cards) < 2:  # noqa: PLR2004  transfers take two
        yield NotApplicable("fewer than two RTX 40 cards are visible")
        return
    if not isinstance(driver.release_version, DriverRelease):
        yield Undecided(f"release of the driver: {driver.release_version.reason}")
        return
    missing = [name for name in _SWITCHES if value_of(variables, name) != "1"]
    if driver.release_version >= _FIRST_SOUND_DRIVER or _P2P not in missing or _is_denied(cards, peer_access):
        return
    yield Finding(
        message=f"{len(cards)} RTX 40 cards with driver {driver.release_version}: NCCL may hang or copy zeros",
        evidence=(
            *(Evidence(source="NVML", value=f"GPU {gpu.index}: {gpu.name}") for gpu in cards),
            Evidence(source=driver.source, value=f"driver {driver.release_version}, before {_FIRST_SOUND_DRIVER}"),
            *_describe_peers(cards, peer_access),
            Evidence(source="environment", value=f"not set to 1: {', '.join(missing)}"),
        ),
        remedy=Remedy(
            summary="tell NCCL not to try, or use a host with driver 550.40.07 or newer",
            commands=tuple(f"export {name}=1" for name in missing),
        ),
        gpus=indices(cards),
    )


def _is_denied(cards: tuple[Gpu, ...], peer_access: tuple[PeerAccess, ...]) -> bool:
    """Whether the driver offers no peer access between any two of the cards, so that nobody will try."""
    peers = _peers_among(cards, peer_access)
    is_complete = len(peers) == len(tuple(combinations(cards, 2)))
    return is_complete and not any(_OFFERED in (peer.read, peer.write) for peer in peers)


def _describe_peers(cards: tuple[Gpu, ...], peer_access: tuple[PeerAccess, ...]) -> tuple[Evidence, ...]:
    statuses = dict.fromkeys(peer.read for peer in _peers_among(cards, peer_access))
    return tuple(Evidence(source="NVML", value=f"nvmlDeviceGetP2PStatus: {status}") for status in statuses)


def _peers_among(cards: tuple[Gpu, ...], peer_access: tuple[PeerAccess, ...]) -> tuple[PeerAccess, ...]:
    pairs = set(combinations(indices(cards), 2))
    return tuple(peer for peer in peer_access if (peer.first, peer.second) in pairs)
