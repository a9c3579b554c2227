"""Scenarios: clusters, streams of requests and rules, read from a TOML file and made ready to run.

`files.load_scenario` reads one, `from_log.scenario_for_log` makes one around a workload log;
`sizes.with_sizes` settles what only the logs can say; then `sources.open_streams`, `sites.site_settings`
and `sites.routing` give the simulation its world.
"""
