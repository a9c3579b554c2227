"""What `leasehold reproduce` can run.

To add an evaluation:

1. Write a package in ``leasehold.experiments`` whose ``evaluation.py`` has it in ``EVALUATIONS``; what all
   evaluations have in common is in ``leasehold.experiments.evaluation``.
2. Add a line to ``_ALL`` in `registry.py`.

The options are the same for all; ``all`` and lists of names come with the registry.
"""
