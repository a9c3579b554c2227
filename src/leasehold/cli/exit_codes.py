"""What the exit status of every command means; see docs/reference/exit-codes.md."""

DONE = 0
ANSWER_IS_NO = 1
BAD_INPUT = 2
DEFECT = 3
UNREACHABLE = 4
INTERRUPTED = 130
