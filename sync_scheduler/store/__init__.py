"""How rows change: every state change of the product is one function in this room.

Each write names what it was derived from (status and token of a Run, epoch and version for a
Schedule). Zero rows means "no longer mine", and the caller stops.
"""
