"""The actions of `manage.py scheduler`: each takes options and returns what is to be printed."""
