"""What the kernel needs of the Cython package where that is not installed: that nothing is compiled."""

compiled = False
