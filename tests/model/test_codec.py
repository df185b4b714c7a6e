"""Facts as JSON: what survives, and how a fault is named."""

import json
from typing import Any

import pytest

from envdoctor.model.arch import Arch, ComputeCapability
from envdoctor.model.codec import CodecError, from_json, to_json
from envdoctor.model.facts import Absence, Environment, Facts, Gpu, GpuHealth, NvmlSession, Unavailable
from envdoctor.model.versions import CudaVersion, DriverRelease
from tests.builders import a_gpu, a_library, an_environment, an_nvml_session, healthy_facts


def test_the_facts_of_a_healthy_machine_survive_json() -> None:
    facts = healthy_facts()

    assert from_json(Facts, json.loads(json.dumps(to_json(facts)))) == facts


def test_a_missing_fact_keeps_its_reason_and_kind() -> None:
    facts = Facts(torch=Unavailable("torch is not installed", Absence.NOT_APPLICABLE), host=Unavailable("denied"))

    assert from_json(Facts, to_json(facts)) == facts


def test_a_missing_fact_without_its_kind_is_taken_for_unreadable() -> None:
    facts = from_json(Facts, {"torch": {"unavailable": "damaged"}})

    assert facts.torch == Unavailable("damaged", Absence.UNREADABLE)


def test_facts_of_an_older_envdoctor_lack_the_new_fields() -> None:
    assert from_json(Facts, {}) == Facts()


def test_whole_numbers_are_read_as_fractions_where_those_belong() -> None:
    health = from_json(GpuHealth, {"power_limit": 450})

    assert isinstance(health.power_limit, float)


def test_a_tuple_of_fixed_length_is_read() -> None:
    session = an_nvml_session(failed_calls=(("nvmlDeviceGetP2PStatus", (3, "NVML_ERROR_NOT_SUPPORTED")),))

    assert from_json(NvmlSession, to_json(session)) == session


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Facts, [], r"^\$: not an object"),
        (Facts, {"gpuz": []}, r"^\$: unknown field 'gpuz' of a Facts"),
        (Facts, {"gpus": {}}, r"^\$\.gpus: not a list"),
        (Facts, {"gpus": [3]}, r"^\$\.gpus\[0\]: not an object"),
        (Facts, {"gpus": [{"index": "0"}]}, r"^\$\.gpus\[0\]\.index: not a int: '0'"),
        (Facts, {"gpus": [{"index": True}]}, r"^\$\.gpus\[0\]\.index: not a int: True"),
        (Facts, {"gpus": [{"index": 0}]}, r"^\$\.gpus\[0\]: not a Gpu: .*missing"),
        (Facts, {"torch": {"unavailable": 3}}, r"^\$\.torch: not the reason of a missing fact"),
        (Facts, {"torch": {"unavailable": "x", "absence": "y"}}, r"^\$\.torch\.absence: not a Absence"),
        pytest.param(
            Facts, {"gpus": [{"index": 10**4000}]}, r"^\$\.gpus\[0\]\.index: a number that no", id="long number"
        ),
        (GpuHealth, {"power_limit": float("nan")}, r"^\$\.power_limit: a number that no fact has"),
        (GpuHealth, {"power_limit": float("inf")}, r"^\$\.power_limit: a number that no fact has"),
        pytest.param(
            GpuHealth, {"power_limit": 10**400}, r"^\$\.power_limit: a number that no fact has", id="too long"
        ),
        (DriverRelease, {"text": "new"}, r"^\$: not a DriverRelease: not a driver release: 'new'"),
        (Arch, {"capability": [8, 0], "kind_name": "zz"}, r"^\$: not a Arch: not an architecture: 'zz_80'"),
        (ComputeCapability, [8], r"^\$: not the 2 values of a ComputeCapability"),
        (ComputeCapability, [8, "6"], r"^\$\.minor: not a int"),
        (NvmlSession, to_json(an_nvml_session()) | {"failed_calls": [["f"]]}, r"failed_calls\[0\]: 2 values expected"),
        (Environment, to_json(an_environment()) | {"path_source": "guess"}, r"^\$\.path_source: not a PathSource"),
        (Gpu, to_json(a_gpu()) | {"health": "fine"}, r"^\$\.health: not an object"),
        (Unavailable, "no", r"^\$: not the reason of a missing fact"),
        (dict[str, int], {}, r"^\$: cannot read a"),
    ],
)
def test_a_fault_is_named_with_its_path(kind: type, value: Any, message: str) -> None:
    with pytest.raises(CodecError, match=message):
        from_json(kind, value)


def test_a_missing_value_is_none_only_where_none_is_allowed() -> None:
    document = to_json(a_library("sm_80"))
    document["library"] = None

    with pytest.raises(CodecError, match=r"^\$\.library: not a str: None"):
        from_json(type(a_library("sm_80")), document)


def test_versions_and_architectures_are_readable_in_the_json() -> None:
    assert to_json(CudaVersion(12, 4)) == [12, 4]
    assert to_json(Arch.parse("sm_90a"))["suffix"] == "a"
