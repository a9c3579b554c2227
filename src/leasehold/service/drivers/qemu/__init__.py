"""Virtual machines under QEMU: one process for each, which outlives the gateway that started it."""
