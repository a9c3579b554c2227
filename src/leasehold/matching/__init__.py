"""Matching: where can a job run? Needs, capabilities, queues, assignment, reliability, physical or virtual.

No I/O and no clock. After S. Thamarai Selvi, P. R. K. Sathia Bhama, S. Architha, T. Kaarunya and K.
Vinothini, "Scheduling in virtualized grid environment using hybrid approach" (its text gives no year),
below cited as Thamarai Selvi et al. Where its printed algorithms contradict its tables or its text, the
rule concerned says so.
"""
