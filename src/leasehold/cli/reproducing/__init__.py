"""What `leasehold reproduce` can run, one small file for each evaluation.

To add one:

1. Write ``reproducing/mine.py`` with one class, as `usage_agreements.py` has: its name, one line of what it
   does, the names of its parts, and ``run(parts, manner)``, which measures with `measuring.measure`, writes
   its files into the folder that `folders.folder_for` gives, and returns an `Answer`. Heavy imports wait
   inside the functions: the help lists all evaluations.
2. Add a line to ``_ALL`` in `registry.py`.

The options are the same for all, in `options.py`; ``all`` and lists of names come with it.
"""
