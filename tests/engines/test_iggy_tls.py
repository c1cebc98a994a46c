"""TLS to an Iggy server: the right certificate is taken, every other one is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from laser.engines.iggy import open_iggy_log, parse_iggy_url
from laser.errors import ConfigError, DisconnectedError
from laser.testing.server import IggyServer, find_server_binary

pytestmark = [pytest.mark.anyio, pytest.mark.iggy]


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


class _Authority:
    """A certificate authority of its own, made with the openssl program."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self.file = directory / f"{name}.pem"
        self._key = directory / f"{name}.key"
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj", f"/CN={name}", "-keyout", str(self._key), "-out", str(self.file),
        )  # fmt: skip

    def issue(self, name: str, *, names: str, days: int = 2) -> tuple[Path, Path]:
        """A certificate for names, and its key. Negative days make one that has expired."""
        key, request, certificate = (self._directory / f"{name}.{suffix}" for suffix in ("key", "csr", "pem"))
        self._openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
            "-keyout", str(key), "-out", str(request),
        )  # fmt: skip
        extensions = self._directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\nbasicConstraints=CA:FALSE\n")
        self._openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.file), "-CAkey", str(self._key), "-CAcreateserial",
            "-extfile", str(extensions), "-days", str(days), "-out", str(certificate),
        )  # fmt: skip
        return certificate, key

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> _Authority:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl program to make certificates with")
    return _Authority(tmp_path_factory.mktemp("certificates"), "authority")


def _serve(certificate: Path, key: Path) -> IggyServer:
    if find_server_binary() is None:
        pytest.skip("no iggy-server program to start with TLS: put it on the PATH or into LASER_TEST_IGGY_SERVER")
    return IggyServer(
        env={
            "IGGY_TCP_TLS_ENABLED": "true",
            "IGGY_TCP_TLS_SELF_SIGNED": "false",
            "IGGY_TCP_TLS_CERT_FILE": str(certificate),
            "IGGY_TCP_TLS_KEY_FILE": str(key),
        }
    )


@pytest.fixture(scope="module")
def server(authority: _Authority) -> Iterator[IggyServer]:
    with _serve(*authority.issue("server", names="DNS:localhost,DNS:iggy.example,IP:127.0.0.1")) as running:
        yield running


async def _use(server: IggyServer, options: str, host: str = "127.0.0.1", *, timeout: float = 20) -> None:
    config, _ = parse_iggy_url(f"iggy://iggy:iggy@{host}:{server.port}?{options}")
    log = await open_iggy_log(config, timeout=timeout)
    try:
        assert (await log.describe()).engine == "iggy"
    finally:
        await log.aclose()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_good_certificate_is_taken(server: IggyServer, authority: _Authority, host: str) -> None:
    await _use(server, f"tls=true&tls_ca_file={authority.file}", host)


async def test_the_name_to_check_can_be_given(server: IggyServer, authority: _Authority) -> None:
    await _use(server, f"tls=true&tls_ca_file={authority.file}&tls_domain=iggy.example")


async def test_checking_can_be_switched_off(server: IggyServer) -> None:
    await _use(server, "tls=true&tls_validate=false")


async def test_another_authoritys_certificate_is_refused(server: IggyServer, tmp_path: Path) -> None:
    other = _Authority(tmp_path, "other")
    with pytest.raises(DisconnectedError, match="certificate is valid for this host and from a trusted authority"):
        await _use(server, f"tls=true&tls_ca_file={other.file}")
    with pytest.raises(DisconnectedError, match="trusted authority"):
        await _use(server, "tls=true")  # the well-known authorities do not know it either


async def test_another_hosts_certificate_is_refused(server: IggyServer, authority: _Authority) -> None:
    with pytest.raises(DisconnectedError, match="certificate is valid for this host"):
        await _use(server, f"tls=true&tls_ca_file={authority.file}&tls_domain=other.example")


async def test_an_expired_certificate_is_refused(authority: _Authority) -> None:
    with (
        _serve(*authority.issue("expired", names="IP:127.0.0.1", days=-1)) as server,
        pytest.raises(DisconnectedError, match="certificate is valid"),
    ):
        await _use(server, f"tls=true&tls_ca_file={authority.file}")


async def test_an_authority_file_that_is_none_is_told(server: IggyServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TLS"):
        await _use(server, f"tls=true&tls_ca_file={tmp_path / 'absent.pem'}")


async def test_without_tls_such_a_server_is_not_understood(server: IggyServer) -> None:
    with pytest.raises(DisconnectedError):
        await _use(server, "connections=1", timeout=1.5)
