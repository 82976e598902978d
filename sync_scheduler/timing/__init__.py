"""When something is due: rules, their slots, and what to do with slots that were missed.

Pure: nothing here reads a clock, a database or a setting. Time comes in as an argument and
goes out as aware datetimes in UTC.

`rules` says what a schedule may look like, `slots` which instants follow from it,
`policies` what happens to those that are due, `description` how a person reads it.
"""
