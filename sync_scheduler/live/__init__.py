"""What happens right now, as streams of events: for the HTTP interface and for the admin."""
