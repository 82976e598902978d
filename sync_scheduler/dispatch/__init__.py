"""The leader's work: due slots become Runs, what slipped is put back, what is old goes.

Every function here takes the time and the authority to act as arguments and returns what it did.
The loops that call them are in `processes.dispatcher`.
"""
