"""The log on Kafka: what it appends, reads, forgets, and what its errors mean."""
