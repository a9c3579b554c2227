"""One router for each noun: it checks, asks the federation, and shows what it says."""
