"""`python -m mmt.cli`."""

import sys

from mmt.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
