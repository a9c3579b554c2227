"""Replay a log into a run folder, and do not read it again.

    python bench/simulate.py LOG.swf PROCS RUN

Shows what simulating itself needs of memory, without the summary that ``leasehold sim run`` makes.
"""

import sys
from pathlib import Path

from leasehold.simulation.run import run_scenario
from leasehold.simulation.scenario.from_log import LogOptions, scenario_for_log

if __name__ == "__main__":
    log, procs, run = sys.argv[1:]
    run_scenario(scenario_for_log(Path(log), LogOptions(procs=procs)), Path(run))
