"""Triggers of IoTDB: classes of users, each in a process of its own, called for rows that are written."""
