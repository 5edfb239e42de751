"""``python -m dpmodels``."""

from __future__ import annotations

import sys

from dpmodels.cli import main

if __name__ == "__main__":
    sys.exit(main())
