"""A certificate for the services of one machine, signed by an authority made for it.

The authority's key is thrown away, so nobody can sign anything else that clients would trust.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY, CERTIFICATE, KEY = "ca.pem", "certificate.pem", "key.pem"
LIFE = timedelta(days=365)
_SOON = timedelta(days=30)


def ensure(folder: Path) -> None:
    """Make the three files in ``folder``, unless they are there and hold for a month."""
    if _holds(folder):
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    signing, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, subject = _name("Millrace on this machine"), _name("localhost")
    authority = (
        _begun(issuer, issuer, signing.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(signing.public_key()), critical=False)
        .sign(signing, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), *(x509.IPAddress(ip_address(one)) for one in ("127.0.0.1", "::1"))]
    certificate = (
        _begun(issuer, subject, own.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False
        )
        .sign(signing, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    _write(folder / AUTHORITY, authority.public_bytes(pem), 0o644)
    _write(
        folder / KEY,
        own.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()), 0o600,
    )  # fmt: skip
    _write(folder / CERTIFICATE, certificate.public_bytes(pem), 0o644)


def _holds(folder: Path) -> bool:
    if not all((folder / name).is_file() for name in (AUTHORITY, CERTIFICATE, KEY)):
        return False
    found = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
    return found.not_valid_after_utc - datetime.now(UTC) > _SOON


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _begun(issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFE)
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=signs, crl_sign=signs,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _write(file: Path, data: bytes, mode: int) -> None:
    """Writes a file that is never seen half written, and never has wider permissions than ``mode``."""
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(data)
    draft.replace(file)
