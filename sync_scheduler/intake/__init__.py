"""The door: how runs are born and schedules are declared, and who is told about it.

Rows and Redis meet here and in the rooms above, never below.
"""
