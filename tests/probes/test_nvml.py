"""NVML as a real nvidia-ml-py meets it: a fake driver library, in every state of health."""
import os
import subprocess
import sys

import pytest

from envdoctor.probes.nvml import start_inquiry
from envdoctor.probes.nvml_answer import NvmlAnswer
from tests.fake_nvml.machine import FakeMachine, Install


def test_show(fake_nvml: Install, monkeypatch):
    for k, v in fake_nvml(FakeMachine()).items():
        monkeypatch.setenv(k, v)
    i = start_inquiry()
    print(i.finish())
