"""Draws specifications as SVG, or bundles the script for live charts: JSON on standard input, JSON on standard output.

A program of its own (see `render.py`): it imports nothing of Leasehold, so that only what draws is in memory.
"""

import json
import sys
from collections.abc import Callable
from typing import cast

import vl_convert

if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    drawn: dict[str, object] = {"stills": [vl_convert.vegalite_to_svg(spec) for spec in wanted.get("stills", [])]}
    if wanted.get("bundle"):
        # Its types demand a script of one's own to bundle; without one the three are bundled as they are.
        drawn["bundle"] = cast("Callable[[], str]", vl_convert.javascript_bundle)()
    json.dump(drawn, sys.stdout)
