"""ED018: scripts that start another interpreter."""

from envdoctor.rules.ed018_script_of_another_environment import script_of_another_environment
from tests.builders import a_launcher, an_environment


def test_a_moved_environment_is_one_finding() -> None:
    """https://github.com/agessaman/meshcore-bot/issues/229"""
    [finding] = script_of_another_environment(
        environment=an_environment(), launchers=(a_launcher("torchrun"), a_launcher("pip"), a_launcher("pip3"))
    )

    assert finding.message == "`pip`, `pip3`, `torchrun` start `/old/env/bin/python3.10`, which does not exist"
    assert finding.remedy is not None
    assert finding.remedy.commands == (
        "/opt/env/bin/python -m pip",
        "/opt/env/bin/python -m torch.distributed.run",
    )


def test_a_script_of_another_place_is_a_finding_of_its_own() -> None:
    """https://github.com/pytorch/pytorch/issues/92132"""
    elsewhere = a_launcher(script="torchrun", interpreter="/usr/bin/python3", exists=True)
    finding, _ = script_of_another_environment(environment=an_environment(), launchers=(elsewhere, a_launcher("pip")))

    assert finding.message == "`torchrun` starts `/usr/bin/python3`"


def test_is_silent_where_all_start_their_own() -> None:
    assert not script_of_another_environment(environment=an_environment(), launchers=())
