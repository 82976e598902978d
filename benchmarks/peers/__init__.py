"""Our worker beside others, in one run, on the same servers.

    python -m benchmarks.peers [--peers name,name] [--repeat N] [--jobs N] [--json FILE]

`catalogue` says who is compared and how each is set up, `projects` has a tiny project for each,
`driver` measures one of them from inside its own environment, `comparison` puts the figures beside
ours.
"""
