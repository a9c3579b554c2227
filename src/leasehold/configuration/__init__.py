"""What a scenario and a service are told in the same words: how clusters lend, how guests are routed to them.

`keys.Keys` reads one table and lets nothing go unread; `toml.TomlFile` is a file of them, and finds the line
of whatever is wrong. `terms`, `gateway` and `policies` say what keys mean; `sites` makes settings of them.
"""
