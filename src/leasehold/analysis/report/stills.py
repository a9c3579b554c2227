"""Draws specifications as SVG: a JSON list of them on standard input, one of SVG texts on standard output.

With the argument ``bundle`` it writes the script for live charts instead. A program of its own (see `render.py`): it
imports nothing of Leasehold, so that only what draws is in memory.
"""

import json
import sys
from collections.abc import Callable
from typing import cast

import vl_convert

SMALLEST = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a", "type": "quantitative"}}}

if __name__ == "__main__":
    if sys.argv[1:] == ["bundle"]:
        # Its types demand a script of one's own to bundle; without one the three are bundled as they are.
        json.dump(cast("Callable[[], str]", vl_convert.javascript_bundle)(), sys.stdout)
    else:
        vl_convert.vegalite_to_svg(SMALLEST)  # the engine is ready by the time the charts are
        json.dump([vl_convert.vegalite_to_svg(spec) for spec in json.load(sys.stdin)], sys.stdout)
