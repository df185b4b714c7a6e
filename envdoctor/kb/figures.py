"""The rows of gpu_figures.toml, apart from the others: a check never needs them, and each class takes its time."""

from dataclasses import dataclass

from envdoctor.kb.tables import Row
from envdoctor.model.arch import ComputeCapability


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFiguresRow(Row):
    """What is published about one product: dense throughput at the published boost clock."""

    gpu: str  # a name of gpus.toml
    chip: str
    memory_type: str
    memory_gb: float
    bandwidth_gbs: float
    multiprocessors: int
    cuda_cores: int
    boost_mhz: float
    l2_mb: float
    fp32_tflops: float
    tdp_w: int
    tensor_fp16_acc16_tflops: float | None = None
    tensor_fp16_acc32_tflops: float
    tensor_bf16_acc32_tflops: float | None = None
    tensor_tf32_tflops: float | None = None
    tensor_int8_tflops: float | None = None
    tensor_fp8_acc16_tflops: float | None = None
    tensor_fp8_acc32_tflops: float | None = None
    fp64_to_fp32: str = ""  # ratio of the rates: "1/64"
    pcie: str = ""
    nvlink_gbs: float | None = None  # both directions together
    peer_to_peer: str = ""
    derived: tuple[str, ...] = ()  # fields that are computed from others and the rates
    remembered: tuple[str, ...] = ()  # fields that were not found in a source: uncertain


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow(Row):
    """What a multiprocessor does per clock."""

    compute_capability: ComputeCapability
    tensor_fp16: int  # dense operations, FP16 accumulate
    fp32: int
    max_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow(Row):
    """The lowest and the highest throughput that independent people measured: limits of plausibility."""

    gpu: str
    reports: int
    fp32_tflops: tuple[float, ...] = ()
    tf32_tflops: tuple[float, ...] = ()
    fp16_tflops: tuple[float, ...] = ()
    bf16_tflops: tuple[float, ...] = ()
    fp8_tflops: tuple[float, ...] = ()
    fp64_tflops: tuple[float, ...] = ()
    bandwidth_percent: float | None = None  # of the published bandwidth


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow(Row):
    """Training throughput, in the units of the source's tables (images, sequences or samples per second)."""

    gpu: str
    dtype: str
    ssd: float
    bert_base_squad: float
    bert_large_squad: float
    gnmt: float
    resnet50: float
    tacotron2: float
    waveglow: float
