"""A site whose machines are those of a cloud: Amazon's EC2, or another that has its API.

`options` is what is configured, `driver` all that is said to EC2 and read of it.
"""
