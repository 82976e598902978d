"""The product as a newcomer meets it: from outside, through its commands and pages."""
