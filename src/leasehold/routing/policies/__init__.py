"""The routing policies that come with Leasehold, one small file each."""
