"""A site whose machines are domains of libvirt: QEMU's, or those of whatever else it drives.

`options` is what is configured, `domain` how machines are named and described; `host` is the connection and the disks,
`guest` what a domain and its command are doing; `driver` joins them, and knows how machines are moved.
"""
