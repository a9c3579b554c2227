"""The models of the HTTP API; each field is declared once, with type, unit, meaning and example.

The service generates its OpenAPI from these models and validates requests with them; the client sends and returns
them; the command line prints them. Request models reject unknown fields. So do response models, except in the client,
where a newer gateway may send more.
"""
