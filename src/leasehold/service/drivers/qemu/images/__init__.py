"""What a virtual machine boots from, and how the one that comes with Leasehold is built."""
