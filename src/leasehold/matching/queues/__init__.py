"""In which order are waiting jobs looked at? Disciplines behind one small interface."""
