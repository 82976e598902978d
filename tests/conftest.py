"""What every test shares. The servers and their fixtures are in `tests/services/plugin.py`."""
