"""Who may do what on a stack's own broker, if its clients log in: two users, by SASL/PLAIN.

The services log in as ``millrace``, who may do everything. ``producer`` may write rows (``wal.*``) and
nothing else. Their passwords are in files of the stack's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from millrace_core.errors import ErrorCode, MillraceError
from millrace_core.wire.topics import WAL_PREFIX
from millrace_service import KafkaAccess, kept_secret, write_secret
from millrace_service.kafka import jaas_entry, quoted

SERVICES, PRODUCER = "millrace", "producer"
FILES = {SERVICES: "kafka-password", PRODUCER: "kafka-producer-password"}
"""The files that hold their passwords, in the stack's folder."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LISTENER = "CLIENTS"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SECONDS = 30.0


def password_of(user: str, data_dir: Path) -> str:
    """The password of a user for whom none was set; made when it is first asked for.

    :raises MillraceError: INVALID_VALUE for a file that others may read.
    """
    return kept_secret(data_dir / FILES[user], f"password of Kafka's user {user}")


def jaas(user: str, password: str, others: Mapping[str, str]) -> str:
    """The broker's list of users: its own user, which the services share, and ``others`` by name.

    :raises MillraceError: INVALID_VALUE if the own user is among the others.
    """
    if user in others:
        raise MillraceError(
            ErrorCode.INVALID_VALUE, f"MILLRACE_KAFKA_USER: {user} is the name of another user"
        )
    known = {user: password, **others}
    users = " ".join(f"user_{name}={quoted(text)}" for name, text in known.items())
    return f"KafkaServer {{\n  {jaas_entry(_MODULE, user, password)} {users};\n}};\n"


def properties(access: KafkaAccess, keystore: Path) -> dict[str, object]:
    """The broker's settings for clients with this ``access``. ``keystore``: file of key and certificate."""
    found: dict[str, object] = {
        "listener.security.protocol.map": f"{LISTENER}:{access.protocol},CONTROLLER:{access.protocol}",
        "inter.broker.listener.name": LISTENER,
    }
    if access.sasl:
        found |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{access.user}",
        }
    if access.tls:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}
    if access.tls and access.ca:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.ca}
    return found


def write_keystore(keystore: Path, certificate: str, key: str) -> None:
    """Key and certificate in one file, as the broker takes them.

    :raises MillraceError: INVALID_VALUE if one of them cannot be read.
    """
    try:
        text = "\n".join(Path(file).read_text() for file in (key, certificate))
    except (OSError, UnicodeDecodeError) as error:
        raise MillraceError(
            ErrorCode.INVALID_VALUE, f"the broker's certificate or its key cannot be read: {error}"
        ) from error
    rewrite(keystore, text)


def rewrite(file: Path, text: str) -> None:
    """Replaces a file by a new one that only its owner can read."""
    file.unlink(missing_ok=True)
    write_secret(file, text)


def let_produce(address: str, access: KafkaAccess) -> None:
    """Let the user ``producer`` write rows; to say so again changes nothing.

    :raises MillraceError: UNAVAILABLE if the broker does not take it.
    """
    rule = AclBinding(
        ResourceType.TOPIC, WAL_PREFIX, ResourcePatternType.PREFIXED, f"User:{PRODUCER}", "*",
        AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip
    client = AdminClient({"bootstrap.servers": address, "log_level": 0, **access.librdkafka})
    try:
        for done in client.create_acls([rule]).values():
            done.result(_SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise MillraceError(ErrorCode.UNAVAILABLE, f"the broker did not accept an ACL: {error}") from error
