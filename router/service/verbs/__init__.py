"""What services and their router say to each other: each verb is a file with its deed, its event, or both.

A verb of a service is a `Request`, carried out by the part in `router/core/control/` that names its class; a verb of
the router is `News`, which the service's rules hear. Its fields are what travels, and what is validated.
"""
