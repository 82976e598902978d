"""What operators read: the same answers for the shell, for HTTP and for the admin. Reads only.

Each answer takes a fixed number of queries, whatever the number of rows, and counts nothing but
what an index bounds (what runs, what waits, what ended in the last day).
"""
