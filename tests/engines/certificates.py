"""Certificates for tests of TLS, made with the openssl program and gone with their directory."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Authority:
    """Somebody who signs certificates.

    Attributes:
        certificate: PEM, to be trusted.
    """

    directory: Path
    certificate: Path
    key: Path

    def sign(self, name: str, *, host: str, days: int = 2) -> tuple[Path, Path]:
        """A server's certificate and key, for an address; of 0 days it has expired already."""
        certificate, key, request = (self.directory / f"{name}.{end}" for end in ("crt", "key", "csr"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={'IP' if host[0].isdigit() else 'DNS'}:{host}\n")
        _openssl("req", "-new", *_new_key(key), "-out", request, "-subj", f"/CN={name}")
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial"),
            *("-out", certificate, "-extfile", extensions, "-days", days),
        )
        return certificate, key


def authority(directory: Path, name: str) -> Authority:
    """A new one; skips the test where there is no openssl."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl program to make certificates with")
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    _openssl("req", "-x509", *_new_key(key), "-out", certificate, "-days", 2, "-subj", f"/CN={name}")
    return Authority(directory, certificate, key)


def _new_key(path: Path) -> tuple[object, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path)


def _openssl(*arguments: object) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
