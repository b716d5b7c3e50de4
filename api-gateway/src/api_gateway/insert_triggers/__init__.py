"""IoTDB's triggers: users' classes, each in a process of its own, which are called for written rows."""
