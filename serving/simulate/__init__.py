"""A fleet in a box: arrivals, routers and replicas as events on a clock of their own.

The router in it is `serving.router`, the very code; the replicas are queues.
"""
