"""When a stream triggers: clock and watermark, windowers, emission, and the slot that hosts them.

Pure: messages and memory in, trigger events and memory out. Time is data: nothing here reads a clock.
"""
