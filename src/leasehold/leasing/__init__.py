"""When a lease runs and which gives way: availability profile, backfilling, repair, victims, overheads."""
