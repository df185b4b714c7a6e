"""``python -m envdoctor``."""

import sys

from envdoctor.cli import main

sys.exit(main())
