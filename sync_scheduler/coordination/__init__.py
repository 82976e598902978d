"""Who may act now, and how soon: everything that Redis is used for, and nothing that must last.

Redis may be lost, stale, split, full or wiped at any time; then only latency suffers.
"""
