"""``python -m envdoctor``."""

import os
import sys


def _current_folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  pathlib could be that of the current folder
    except OSError:  # it was deleted
        return ""


# Python puts the current folder first, and a repository may hold a click.py of its own.
if sys.path[0] in {"", _current_folder()}:
    del sys.path[0]

from envdoctor.cli import main  # noqa: E402

sys.exit(main())
