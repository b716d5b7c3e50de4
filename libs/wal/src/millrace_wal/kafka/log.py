"""The log on Kafka."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import Topic
from millrace_wal.kafka import trim
from millrace_wal.kafka.errors import MISSING, MOVING, OUT, REFUSED, Strikes, is_fatal, kafka_error
from millrace_wal.kafka.growing_reader import GrowingReader
from millrace_wal.kafka.producer import Appender
from millrace_wal.kafka.reader import KafkaGroupReader, KafkaReader
from millrace_wal.record import BEGIN, END, MAX_MESSAGE_BYTES, Closing, Message, Positions, Reader

_ASK = 5.0
"""Seconds that a question to the broker (metadata, offsets) may take."""
_CREATE = 30.0
SEGMENT_BYTES = 16 << 20
COMPACTED_MS = 600_000
"""Records younger than this are not compacted."""
_ADMIN_OUT = 60.0
"""Seconds after which an admin client that does nothing but fail is replaced."""
_KEPT = 10
PLAIN: Mapping[str, str] = MappingProxyType({})
Client = TypeVar("Client", Consumer, AdminClient)
Answer = TypeVar("Answer")


class _Followed(Generic[Client]):
    """A client for questions to the broker. It is replaced after a fatal error, and when it has done nothing
    but fail for ``seconds``; threads that still wait for the previous client keep it.

    ``keep``: replaced clients are never freed, so only a few replacements are made. librdkafka aborts the
    process if a client is freed while a question of the admin protocol is on its way
    (``rd_kafka_enq_once_del_source_return: Assertion``).
    """

    def __init__(
        self, make: Callable[[], Client], logger: logging.Logger, seconds: float = OUT, keep: bool = False
    ) -> None:
        self._make, self._logger, self._keep = make, logger, keep
        self._lock, self._strikes = threading.Lock(), Strikes(seconds)
        self._former: list[Client] = []
        self.client = make()

    def worked(self) -> None:
        with self._lock:
            self._strikes.forget()

    def failed(self, error: KafkaError | None) -> None:
        """``error``: None if there was no answer in time."""
        with self._lock:
            if self._strikes.out() or (error is not None and is_fatal(error)):
                self._strikes.forget()
                if len(self._former) == _KEPT:
                    return
                self._logger.warning("ask: this client cannot be used any more and is replaced: %s", error)
                if self._keep:
                    self._former.append(self.client)
                self.client = self._make()


class KafkaLog(Closing):
    """See :class:`millrace_wal.record.Log`. It has one producer with its thread, and two clients for
    questions; each is replaced when it is done for.

    ``bootstrap``: ``host:port[,host:port…]``; ``client``: the name in the broker's logs; ``access``: who it
    is and whom it trusts, as librdkafka's settings. It connects when first used, so making one never fails.
    """

    def __init__(self, bootstrap: str, client: str, access: Mapping[str, str] = PLAIN) -> None:
        self._bootstrap = bootstrap
        self._logger = logging.getLogger("millrace_wal.kafka.log")
        self._common: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "client.id": client,
            "socket.nagle.disable": True,
            "reconnect.backoff.max.ms": 1000,
            "broker.address.family": "any",
            **access,
        }
        self._lock = threading.Lock()
        self._appender = Appender(self._common, self._logger)
        ask = self._common | {
            "group.id": "none", "allow.auto.create.topics": False, "error_cb": self._heed,
        }  # fmt: skip
        self._refused = ""
        """What a broker says that does not let this user in; librdkafka keeps trying for ever."""
        self._asking = _Followed(lambda: Consumer(ask, logger=self._logger), self._logger)
        self._admin = _Followed(
            lambda: AdminClient(self._common, logger=self._logger), self._logger, _ADMIN_OUT, keep=True
        )
        self._closed = False

    def append(self, messages: Sequence[Message], timeout: float = 30) -> list[tuple[int, int]]:
        for message in messages:
            if len(message.key or b"") + len(message.value or b"") > MAX_MESSAGE_BYTES:
                raise MillraceError(
                    ErrorCode.TOO_LARGE,
                    f"append to topic {message.topic}: a message has more than {MAX_MESSAGE_BYTES} bytes",
                )
        return self._working_appender().append(messages, timeout)

    def _working_appender(self) -> Appender:
        with self._lock:
            if self._appender.ended and not self._closed:
                threading.Thread(target=self._appender.close, name="wal-client-closing", daemon=True).start()
                self._appender = Appender(self._common, self._logger)
            return self._appender

    def ensure_topics(self, topics: Sequence[Topic | tuple[str, int]]) -> None:
        wanted = [t if isinstance(t, Topic) else Topic(t[0], "", "", t[1], kept_ms=-1) for t in topics]
        there = set(self.topics())
        missing = [_new_topic(topic) for topic in wanted if topic.name not in there]
        if missing:
            futures = self._admin.client.create_topics(missing)
            self._settle(futures.items(), "create", {KafkaError.TOPIC_ALREADY_EXISTS})
        old = [t for t in topics if isinstance(t, Topic) and t.name in there and not t.compacted]
        self._ask(lambda admin: trim.keep_for(admin, {t.name: t.retention_ms for t in old}))
        self._await({topic.name: True for topic in wanted}, "create")
        for topic in missing:
            self.end_offsets(topic.topic)  # answers only once the leaders know that they lead

    def delete_topics(self, names: Sequence[str]) -> None:
        there = set(self.topics())
        known = [name for name in names if name in there]
        if known:
            self._settle(self._admin.client.delete_topics(known).items(), "delete", MISSING)
        self._await(dict.fromkeys(names, False), "delete")

    def empty_topics(self, names: Sequence[str]) -> None:
        ends = [
            TopicPartition(name, partition, end)
            for name in names
            for partition, end in self.end_offsets(name).items()
            if end
        ]
        if ends:
            futures = self._admin.client.delete_records(ends)
            self._settle([(where.topic, future) for where, future in futures.items()], "empty", frozenset())

    def trim(self, ends: Mapping[str, Mapping[int, int]]) -> None:
        self._ask(lambda admin: trim.forget_before(admin, ends))

    def cut_for(self, kept: Mapping[str, int]) -> None:
        self._ask(lambda admin: trim.cut_for(admin, kept))

    def offsets_at(self, topic: str, at: int) -> dict[int, int]:
        ends = self.end_offsets(topic)
        return self._ask(lambda admin: trim.offsets_at(admin, topic, ends, at))

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = self._metadata(topic).topics[topic]
        if found.error is not None:
            if found.error.code() in MISSING:
                return {}
            raise kafka_error(found.error, f"read the commits of group {group}")
        # the admin client is not used here: if a connection breaks while it asks who coordinates a group,
        # librdkafka ends the process (pull request 5397)
        client = Consumer(
            self._common | {"group.id": group, "enable.auto.commit": False}, logger=self._logger
        )
        try:
            places = client.committed([TopicPartition(topic, number) for number in found.partitions], _ASK)
            for place in places:
                if place.error is not None:
                    raise KafkaException(place.error)
            return {place.partition: place.offset for place in places if place.offset >= 0}
        except KafkaException as error:
            raise kafka_error(error, f"read the commits of group {group}") from error
        finally:
            client.close()

    def _ask(self, ask: Callable[[AdminClient], Answer]) -> Answer:
        try:
            found = ask(self._admin.client)
        except MillraceError:
            self._admin.failed(None)
            raise
        self._admin.worked()
        return found

    def _settle(self, futures: Iterable[tuple[str, Any]], verb: str, fine: set[int] | frozenset[int]) -> None:
        for name, future in futures:
            try:
                future.result(_CREATE)
            except KafkaException as error:
                if error.args[0].code() not in fine:
                    self._admin.failed(error.args[0])
                    raise kafka_error(error, f"{verb} topic {name}") from error
            except TimeoutError as error:
                self._admin.failed(None)
                raise MillraceError(
                    ErrorCode.TIMEOUT, f"{verb} topic {name}: the broker did not answer"
                ) from error

    def _await(self, exist: Mapping[str, bool], verb: str) -> None:
        """Wait until each topic has leaders for all its partitions, or is gone."""
        until = time.monotonic() + _CREATE
        while True:
            metadata = self._metadata(None).topics
            odd = [name for name, wanted in exist.items() if _usable(metadata.get(name)) != wanted]
            if not odd:
                return
            if time.monotonic() > until:
                raise MillraceError(
                    ErrorCode.TIMEOUT, f"{verb} topic {odd[0]}: not finished after {_CREATE:g} s"
                )
            time.sleep(0.01)

    def topics(self, prefix: str = "") -> list[str]:
        found = self._metadata(None).topics
        return sorted(name for name in found if name.startswith(prefix) and not name.startswith("__"))

    def _metadata(self, topic: str | None) -> Any:
        ask = self._asking.client.list_topics
        try:
            found = ask(timeout=_ASK) if topic is None else ask(topic, timeout=_ASK)
            self._asking.worked()
            self._refused = ""
            return found
        except KafkaException as error:
            self._asking.failed(error.args[0])
            with suppress(KafkaException):
                self._asking.client.poll(0)  # poll has the reason reported to _heed
            # whatever the cause, it means that no broker answers
            why = self._refused or error.args[0].str()
            raise MillraceError(
                ErrorCode.UNAVAILABLE, f"the broker at {self._bootstrap} cannot be reached: {why}"
            ) from error

    def _heed(self, error: KafkaError) -> None:
        if error.code() in REFUSED:
            self._refused = error.str()

    def begin_offsets(self, topic: str) -> dict[int, int]:
        return self._offsets(topic, OffsetSpec.earliest())

    def end_offsets(self, topic: str) -> dict[int, int]:
        return self._offsets(topic, OffsetSpec.latest())

    def _offsets(self, topic: str, which: Any) -> dict[int, int]:
        doing = f"read the offsets of topic {topic}"
        until = time.monotonic() + _ASK
        while True:
            found = self._metadata(topic).topics[topic]
            if found.error is not None and found.error.code() not in MOVING:
                raise kafka_error(found.error, doing)
            try:
                return self._ask_offsets({topic: found.partitions}, which).get(topic, {})
            except KafkaException as error:
                # a broker that has just become the leader of a partition may not know it yet
                if time.monotonic() > until or error.args[0].code() not in MOVING:
                    self._admin.failed(error.args[0])
                    raise kafka_error(error, doing) from error
                time.sleep(0.02)
                # if the broker stood still for a while, the client remembers an outdated leader epoch
                with suppress(KafkaException):
                    self._admin.client.list_topics(topic, timeout=_ASK)
            except TimeoutError as error:
                self._admin.failed(None)
                raise MillraceError(ErrorCode.TIMEOUT, f"{doing}: the broker did not answer") from error

    def _ask_offsets(
        self, parts: Mapping[str, Iterable[int]], which: Any, fine: frozenset[int] = frozenset()
    ) -> Positions:
        """The offsets of these topics' partitions; a partition whose error is in ``fine`` is left out."""
        asked = {TopicPartition(topic, part): which for topic, found in parts.items() for part in found}
        # readers see committed records only, so for them the end is the last stable offset
        futures = self._admin.client.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ASK
        )
        ends: Positions = {}
        for where, future in futures.items():
            try:
                ends.setdefault(where.topic, {})[where.partition] = future.result(_ASK).offset
            except KafkaException as error:
                if error.args[0].code() not in fine:
                    raise
        self._admin.worked()
        return ends

    def ends_of(self, topics: Collection[str]) -> Positions:
        there = self._metadata(None).topics
        known = {name: there[name].partitions for name in topics if _usable(there.get(name))}
        try:
            ends = self._ask_offsets(known, OffsetSpec.latest(), MISSING | MOVING) if known else {}
            return ends | self._ends_anew({name: known[name] for name in known.keys() - ends.keys()})
        except (KafkaException, TimeoutError) as error:
            found = error.args[0] if isinstance(error, KafkaException) else None
            self._admin.failed(found)
            raise kafka_error(
                found or KafkaError(KafkaError._TIMED_OUT), "read the offsets of topics"
            ) from error

    def _ends_anew(self, parts: Mapping[str, Iterable[int]]) -> Positions:
        """The ends of topics for which the client for questions knows outdated leaders. A topic that was
        deleted and made again has lower epochs, which a client takes for older news as long as it lives."""
        if not parts:
            return {}
        fresh = Consumer(self._common | {"group.id": "none"}, logger=self._logger)
        found: Positions = {}
        try:
            for topic, partitions in parts.items():
                places = {p: TopicPartition(topic, p) for p in partitions}
                # a topic whose leader is being chosen is left out, as if it did not exist
                with suppress(KafkaException):
                    found[topic] = {p: fresh.get_watermark_offsets(at, 1.0)[1] for p, at in places.items()}
        finally:
            fresh.close()
        return found

    def reader(
        self, positions: Mapping[str, Mapping[int, int]], grows: bool = False, gathers: bool = False
    ) -> Reader:
        def make(given: Mapping[str, Mapping[int, int]], growing: bool) -> KafkaReader:
            return KafkaReader(
                self._common, given, self._logger, self._resolve, growing, self.ends_of, gathers
            )

        return GrowingReader(make, positions) if grows else make(positions, False)

    def _resolve(self, topic: str, positions: Mapping[int, int]) -> dict[int, int]:
        """Positions as offsets. librdkafka itself would look up BEGIN and END only some time later."""
        wanted = set(positions.values())
        begins = self.begin_offsets(topic) if BEGIN in wanted else {}
        ends = self.end_offsets(topic) if END in wanted else {}
        marks = {BEGIN: begins, END: ends}
        return {p: marks[o].get(p, 0) if o in marks else o for p, o in positions.items()}

    def subscribe(self, group: str, topics: Sequence[str], gathers: bool = False) -> KafkaGroupReader:
        return KafkaGroupReader(self._common, group, topics, self._logger, gathers)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._appender.close()
        self._asking.client.close()


def _usable(topic: Any) -> bool:
    return (
        topic is not None
        and topic.error is None
        and bool(topic.partitions)
        and all(p.error is None and p.leader >= 0 for p in topic.partitions.values())
    )


def _new_topic(topic: Topic) -> NewTopic:
    config = {
        "max.message.bytes": str(MAX_MESSAGE_BYTES + 65536), "retention.bytes": "-1",
        # compaction, too, leaves the last segment as it is
        "segment.bytes": str(SEGMENT_BYTES),
    }  # fmt: skip
    if topic.compacted:
        config |= {"cleanup.policy": "compact", "segment.ms": str(COMPACTED_MS)}
    else:
        config |= {"cleanup.policy": "delete", "retention.ms": str(topic.retention_ms)}
        kept = topic.retention_ms if topic.retention_ms > 0 else topic.kept_ms
        config["segment.ms"] = str(trim.segment_ms(kept))
    # -1: the broker's own replication factor
    return NewTopic(topic.name, num_partitions=topic.partitions, replication_factor=-1, config=config)
