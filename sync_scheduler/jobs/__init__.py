"""What can run: jobs, how they are declared, and what they accept."""
