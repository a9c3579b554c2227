"""Published evaluations, run again: as configuration, with the published numbers beside ours.

One folder for each publication. What is common to all: statistics over seeds, and campaigns of many runs.
"""
