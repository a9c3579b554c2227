"""Machines of Amazon's EC2, or of a cloud that speaks its language; the extra ``[cloud]``.

Tested for the shape of the API alone, against a server that pretends (moto): no test of ours has ever paid
for a machine. `docs/howto/clouds.md` says what follows from that.

`options` is what the configuration can say, `words` what is sent, `reading` what comes back, `refusals` what
goes wrong, and `world` joins them; `leasehold.service.drivers.reconciler` does the rest.
"""
