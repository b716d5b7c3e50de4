"""The command line of Millrace: the stack on one machine, the demo, a SQL prompt."""
