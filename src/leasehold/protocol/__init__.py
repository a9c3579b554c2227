"""What is said over HTTP, each field once: its name, its type and unit, what it means, and an example.

The service makes its OpenAPI of these models and checks requests with them; the client sends and returns them; the
command line prints them. Request models refuse fields that they do not have. So do response models, other than in
the client, where a gateway of a later version may say more.
"""
