"""The kit on which drivers of machines stand: what every kind of machines needs is here once.

What an order asks for is written as the desired state of an instance, the machines of one lease. What there is, is
observed, and the step that brings an instance nearer to its desired state is taken, again and again until none is
needed. So nothing depends on which process was alive when, and a restart only has to observe.

Each layer can be used without those below it:

``order_rules``  `decide`: which orders are followed, whether they come twice, late or out of order
``instances``    `Instance`, what a driver keeps of one lease; `Instances`, those of a site in memory: which is
                 current, how many slots are used, what has to be written and reported
``store``        `InstanceStore`, their durable record; `read_neighbour`, that of another site
``backoff``      `Backoff`: when something that went wrong is retried
``desired``      `DesiredState`: what orders change of instances that have a desired state, and what they are refused
``provider``     `Provider`, one kind of machines; what the state of machines means, and which step is next
``loop``         `Reconciler`: rounds of observing, comparing and acting, in threads
``driver``       `ReconciledDriver`: all of this as a `leasehold.service.drivers.protocol.Driver`

A driver of machines that are asked over a wire, as libvirt's and a cloud's, is a `Provider` given to a
`ReconciledDriver`: it says `observe()`, which machines there are, and `act(step)`. Where the comparison does not suit
it, it overrides `Provider.next_step` or `Provider.status_of`, and may choose a step of its own.

A driver with a loop of its own (batch jobs in a foreign queue, processes that are migrated live, machines that are
emulated) takes from the upper layers:

* `decide`, with a ``refuse`` that says why an instance cannot come, and carries out the `Action` that it returns. What
  is to be checked before is checked after `is_out_of_date`.
* a subclass of `Instance` with its own fields. It is stored as JSON, as its fields are annotated: tuples, enumerations,
  ``None`` and nested dataclasses are all right.
* `InstanceStore`, with ``tables`` of its own, and functions in `write` that fill them in the same transaction;
  ``fact``, ``set_fact`` and ``publish`` for single values.
* `DesiredState`, where an order changes nothing but the desired state of an instance; else `Instances`, which keeps
  them in memory, to be changed in place: overriding ``room_changed`` it can count more than slots.
"""
