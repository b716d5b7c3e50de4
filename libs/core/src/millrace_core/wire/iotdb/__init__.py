"""The bytes that clients of IoTDB's RPC put into its calls, and those that they are answered with."""
