"""Are 90 % intervals of start times right? On public logs, and on the demonstration."""
