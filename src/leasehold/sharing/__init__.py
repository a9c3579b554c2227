"""Sharing: may a request run at all? Usage agreements, decayed usage, delegation, penalties, the broker.

No I/O and no clock. What an agreement says is `leasehold.model.agreement`.
"""
