"""The HTTP API, version 1: one router for each noun, and a problem with its reason for whatever is wrong.

A request comes through `last_resort` (nothing escapes), `body_limit`, and the `door` of its route (who asks,
may they, do they ask too often?), and only then is its body read. Routers check, ask the federation and show.
"""
