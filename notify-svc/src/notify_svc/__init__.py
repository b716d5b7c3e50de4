"""Carries events to WebSocket addresses and subscribers."""
