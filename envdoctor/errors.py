"""Failures of envdoctor itself, as opposed to findings about the machine, and the exit codes of the program."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its caller; the README and `tests/cli/test_exit_codes.py` hold the same table."""

    OK = 0
    FINDINGS = 1  # a finding at or above --fail-on
    USAGE = 2  # wrong usage (Click's own code)
    COULD_NOT_TELL = 3  # an EnvdoctorError, a crashed rule, a bug; with --strict also any UNKNOWN
    INTERRUPTED = 130


class EnvdoctorError(Exception):
    """Base of every error that is reported in one line instead of a traceback."""

    exit_code = ExitCode.COULD_NOT_TELL


class ProbeError(EnvdoctorError):
    """A probe could not find out what it was asked for."""


class EnvironmentNotFoundError(EnvdoctorError):
    """There is no environment where the caller said there is one."""


class KnowledgeBaseError(EnvdoctorError):
    """A row of the knowledge base is malformed; the message names file, row and field."""


class UnknownGpuError(EnvdoctorError):
    """No card of that name is known; the message lists the nearest names."""

    exit_code = ExitCode.USAGE


class UnknownLibraryError(EnvdoctorError):
    """Nothing in the environment goes by that name; the message lists the nearest."""

    exit_code = ExitCode.USAGE


class DriverReleaseError(EnvdoctorError):
    """What was named as a driver is not a release of one."""

    exit_code = ExitCode.USAGE


class FactsError(EnvdoctorError):
    """A facts file is not what `envdoctor collect` writes."""


class ConfigurationError(EnvdoctorError):
    """`[tool.envdoctor]` or `envdoctor.toml` says something that is not an option; the message names file and key."""

    exit_code = ExitCode.USAGE


class UnknownRuleError(EnvdoctorError):
    """No rule has that code or name; the message lists the nearest."""

    exit_code = ExitCode.USAGE


class ReportError(EnvdoctorError):
    """The report could not be written to where it should go."""
