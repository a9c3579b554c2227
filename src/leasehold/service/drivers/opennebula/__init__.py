"""A site whose machines are those of an OpenNebula.

`options` is what is configured, `api` how OpenNebula is called, `states` what its states mean, `driver` the machines.
"""
