"""What Millrace reaches, measured on the whole stack: ``python -m bench [measure…]``. See docs/BENCH.md."""
