"""procrastinate, through its Django integration."""
