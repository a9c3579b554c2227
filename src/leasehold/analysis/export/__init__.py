"""A run in the formats of other people's tools: the Standard Workload Format and Batsim's jobs.csv."""

from leasehold.analysis.export.batsim import write_batsim_jobs
from leasehold.analysis.export.swf import write_swf

__all__ = ["write_batsim_jobs", "write_swf"]
