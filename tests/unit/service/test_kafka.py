"""How clients of Kafka connect, as librdkafka and as Java's clients name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace_core.errors import MillraceError
from millrace_service import KafkaAccess, KafkaSettings, kept_secret, load_settings
from millrace_wal.kafka.log import PLAIN


def access(**variables: str) -> KafkaAccess:
    return load_settings(
        KafkaSettings, {f"MILLRACE_KAFKA_{name}": text for name, text in variables.items()}
    ).kafka


def test_nothing_is_said_of_plain_connections() -> None:
    assert (access().librdkafka, access().java) == (dict(PLAIN), {})
    assert access(USER="ann", CA="/ca.pem").librdkafka == {}


def test_a_user_with_a_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text('a "quoted" \\ word\n')
    found = access(
        PROTOCOL="SASL_SSL", MECHANISM="SCRAM-SHA-512", USER="ann", PASSWORD_FILE=str(file), CA="/ca.pem"
    )
    assert found.librdkafka == {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ann",
        "sasl.password": 'a "quoted" \\ word', "ssl.ca.location": "/ca.pem",
    }  # fmt: skip
    assert found.java == {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ann" password="a \\"quoted\\" \\\\ word";',
        "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem",
    }  # fmt: skip
    assert "quoted" not in repr(found)


def test_a_certificate_of_the_client(tmp_path: Path) -> None:
    certificate, key = tmp_path / "own.pem", tmp_path / "key.pem"
    certificate.write_text("CERTIFICATE")
    key.write_text("KEY")
    found = access(PROTOCOL="SSL", CERTIFICATE=str(certificate), KEY=str(key))
    assert found.librdkafka == {
        "security.protocol": "SSL", "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
    }  # fmt: skip
    assert found.java == {
        "security.protocol": "SSL", "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CERTIFICATE", "ssl.keystore.key": "KEY",
    }  # fmt: skip


@pytest.mark.parametrize(("variables", "why"), [
    ({"PROTOCOL": "TLS"}, "MILLRACE_KAFKA_PROTOCOL must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    ({"PROTOCOL": "SASL_SSL"}, "set MILLRACE_KAFKA_PASSWORD_FILE"),
    ({"PROTOCOL": "SASL_SSL", "PASSWORD_FILE": "/nowhere"}, "MILLRACE_KAFKA_PASSWORD_FILE = '/nowhere'"),
    ({"CERTIFICATE": "/a"}, "both MILLRACE_KAFKA_CERTIFICATE and MILLRACE_KAFKA_KEY must be set, or neither"),
    ({"PROTOCOL": "SSL", "CERTIFICATE": "/nowhere", "KEY": "/a"}, "MILLRACE_KAFKA_CERTIFICATE = '/nowhere'"),
])  # fmt: skip
def test_what_cannot_be_is_refused(variables: dict[str, str], why: str) -> None:
    with pytest.raises(MillraceError, match=why):
        _ = access(**variables).java


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "stack" / "secret"
    made = kept_secret(file, "secret")
    assert kept_secret(file, "secret") == made
    assert len(made) > 30
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(
        MillraceError, match=r"other users may read the secret: remove the file, or run chmod 600 on it"
    ):
        kept_secret(file, "secret")
    with pytest.raises(MillraceError, match="below: "):
        kept_secret(file / "below", "secret")
