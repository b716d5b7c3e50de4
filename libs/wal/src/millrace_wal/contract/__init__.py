"""What every log must do, as tests that each implementation runs; nothing else imports them."""
