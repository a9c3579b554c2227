"""Virtual machines under QEMU: one process for each, which outlives whoever started it."""
