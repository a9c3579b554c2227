"""Small worlds for tests: yours of a policy that you wrote, and Leasehold's own."""
