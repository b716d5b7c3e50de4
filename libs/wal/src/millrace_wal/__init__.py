"""The write-ahead log: on Kafka, in memory with the same behaviour, and replaying a topic from its start."""

from millrace_wal.dead_letters import DeadLetters
from millrace_wal.gaps import Gap, Gaps, GapWatch
from millrace_wal.kafka.log import KafkaLog
from millrace_wal.memory import MemoryLog
from millrace_wal.record import BEGIN, END, GroupReader, Log, Message, Positions, Reader, Record, Stretch
from millrace_wal.replay import replay, up_to

__all__ = [
    "BEGIN", "END", "DeadLetters", "Gap", "GapWatch", "Gaps", "GroupReader", "KafkaLog", "Log", "MemoryLog",
    "Message", "Positions", "Reader", "Record", "Stretch", "replay", "up_to",
]  # fmt: skip
