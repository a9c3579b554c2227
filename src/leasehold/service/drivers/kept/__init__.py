"""What drivers of real machines share that are asked over a wire: libvirt's, and a cloud's.

What was ordered is kept on file as a *goal* for the machines of each lease; what there is, is looked at; and
whatever parts the two is done, again and again, until nothing does. So nothing depends on who was alive when,
and whoever comes back after a crash only has to look.

From the inside out: `holding` is what one lease has; `floor` judges orders; `comparing` says what machines
mean; `ledger` keeps all of it; `caretaker` looks and acts in threads; `driver` is the face. What differs
from kind to kind is a `machine.World`.
"""
