"""An app that makes the process it is loaded into misbehave, as its environment says."""
