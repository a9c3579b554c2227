"""What the files of scenarios and services have in common: how clusters lend, how guests are routed to them.

Each key is declared once. From the declaration, `declaration.Table` reads, checks, writes and explains it.
`terms` and `tables` have the tables; `toml` reads files and finds lines.
"""

from leasehold.configuration.plugins import look_for_installed_policies

look_for_installed_policies()
