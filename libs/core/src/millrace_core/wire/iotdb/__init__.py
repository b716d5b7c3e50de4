"""The bytes that clients of IoTDB's RPC put into calls, and those that they get as answers."""
