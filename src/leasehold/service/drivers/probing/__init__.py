"""What is installed on a node, found by the node itself: packages, environment modules, its clock and disk.

`script` is a small program of the shell that any Unix runs, on the node; `report` reads what it wrote.
Nothing here knows how the script gets to the node: as a job of Slurm, in a guest, or on this very machine.
"""
