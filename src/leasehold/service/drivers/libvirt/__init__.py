"""Machines under libvirt, whatever drives them; the extra ``[libvirt]``.

`options` is what the configuration can say, `names` what domains are called, `domain` how they are described,
`host` the connection, `reading` what libvirt says of them, `disks` and `agent` what belongs to each, `moving`
how they go elsewhere, and `world` joins them; `leasehold.service.drivers.reconciler` does the rest.
"""
