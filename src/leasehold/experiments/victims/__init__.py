"""Victim selection, measured: rules of other systems on the same instants, and guarantees in whole runs."""
