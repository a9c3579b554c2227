"""When a lease runs and who gives way: availability profile, backfilling, repair, victims, overheads."""
