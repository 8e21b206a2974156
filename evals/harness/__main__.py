"""`python -m evals.harness`: the worker process."""

import sys

from evals.harness.worker import main

if __name__ == "__main__":
    sys.exit(main())
