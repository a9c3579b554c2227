"""The state machines that join the stages: the gateway and its sites.

No input, no output, no clock: ``Gateway.handle(events, now_ms)`` returns effects, which a simulator or
a service carries out.
"""
