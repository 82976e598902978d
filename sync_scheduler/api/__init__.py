"""HTTP for machines: JSON, server-sent events, a health probe, metrics. Closed by default."""
