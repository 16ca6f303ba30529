"""`python -m cli`, and `python <folder>/cli/__main__.py`, which works from every folder."""

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from cli import main

main()
