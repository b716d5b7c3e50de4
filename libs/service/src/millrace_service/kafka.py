"""How Kafka clients connect: who they are, and whom they trust. One group of settings serves all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings

from millrace_core.errors import ErrorCode, MillraceError
from millrace_service.access.secret import read_secret

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@dataclass(frozen=True)
class KafkaAccess:
    """``ca``, ``certificate``, ``key``: PEM files. The text of an access shows no password."""

    protocol: Protocol = "PLAINTEXT"
    mechanism: Mechanism = "PLAIN"
    user: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def librdkafka(self) -> dict[str, str]:
        """The settings as librdkafka names them; empty for plain connections."""
        found: dict[str, str] = {} if self.protocol == "PLAINTEXT" else {"security.protocol": self.protocol}
        if self.sasl:
            found |= {
                "sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password,
            }  # fmt: skip
        files = {"ca": self.ca, "certificate": self.certificate, "key": self.key} if self.tls else {}
        return found | {f"ssl.{name}.location": file for name, file in files.items() if file}

    @property
    def java(self) -> dict[str, str]:
        """The settings as Java's clients name them. :raises MillraceError: INVALID_VALUE for a file that
        cannot be read."""
        found: dict[str, str] = {} if self.protocol == "PLAINTEXT" else {"security.protocol": self.protocol}
        if self.sasl:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": jaas_entry(_MODULES[self.mechanism], self.user, self.password) + ";",
            }
        if self.tls and self.ca:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        if self.tls and self.certificate:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _pem("MILLRACE_KAFKA_CERTIFICATE", self.certificate),
                "ssl.keystore.key": _pem("MILLRACE_KAFKA_KEY", self.key),
            }
        return found


_MODULES: dict[Mechanism, str] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def jaas_entry(module: str, user: str, password: str) -> str:
    """A login in the form of Java's JAAS."""
    return f"{module} required username={quoted(user)} password={quoted(password)}"


def quoted(text: str) -> str:
    """A text in JAAS's quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _pem(variable: str, file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise MillraceError(ErrorCode.INVALID_VALUE, f"{variable} = {file!r}: {error}") from error


class KafkaSettings(BaseSettings):
    """How every Kafka client connects: those of the services, of Spark and of the command line."""

    kafka_protocol: Protocol = Field(
        default="PLAINTEXT",
        description="Kafka's security.protocol; the broker that `millrace up` starts uses it too.",
    )
    kafka_mechanism: Mechanism = Field(
        default="PLAIN",
        description="Kafka's sasl.mechanism. The broker that `millrace up` starts supports only PLAIN.",
    )
    kafka_user: str = Field(default="millrace", description="Kafka user that services log in as, for SASL.")
    kafka_password: SecretStr = Field(
        default=SecretStr(""), description="The user's password; when empty, the one in the file."
    )
    kafka_password_file: str = Field(
        default="",
        description="File that contains it; when empty, for the broker that `millrace up` starts, "
        "`kafka-password` in MILLRACE_DATA_DIR, which is created at the first start.",
    )
    kafka_ca: str = Field(
        default="",
        description="PEM file of the authorities that clients trust for Kafka's certificate; when empty, "
        "those of the machine.",
    )
    kafka_certificate: str = Field(
        default="", description="PEM file of a certificate that clients show Kafka; when empty, none."
    )
    kafka_key: str = Field(default="", description="PEM file (PKCS #8) of that certificate's key.")

    @property
    def kafka(self) -> KafkaAccess:
        """:raises MillraceError: INVALID_VALUE for a user without a password, or a password file
        that is unusable."""
        if bool(self.kafka_certificate) != bool(self.kafka_key):
            raise MillraceError(
                ErrorCode.INVALID_VALUE,
                "both MILLRACE_KAFKA_CERTIFICATE and MILLRACE_KAFKA_KEY must be set, or neither",
            )
        found = KafkaAccess(
            self.kafka_protocol, self.kafka_mechanism, self.kafka_user, "", self.kafka_ca,
            self.kafka_certificate, self.kafka_key,
        )  # fmt: skip
        return found if not found.sasl else replace(found, password=self._password())

    def _password(self) -> str:
        if text := self.kafka_password.get_secret_value():
            return text
        if self.kafka_password_file:
            return read_secret("MILLRACE_KAFKA_PASSWORD_FILE", self.kafka_password_file)
        raise MillraceError(
            ErrorCode.INVALID_VALUE,
            f"MILLRACE_KAFKA_PROTOCOL = {self.kafka_protocol} requires a password of the clients: set "
            "MILLRACE_KAFKA_PASSWORD_FILE",
        )
