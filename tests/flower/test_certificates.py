"""The authority's certificates are accepted by TLS for the names they are made for, are
renewed in time or refused.
"""

import shutil
import socket
import ssl
import threading
from collections import namedtuple
from datetime import datetime, timedelta

import pytest
from cryptography.hazmat.primitives.serialization import (
    load_ssh_private_key,
    load_ssh_public_key,
)

from headgate.errors import DataError, SettingError
from headgate.flower.deploy import certificates
from headgate.flower.deploy.certificates import (
    AUTHORITY_DAYS,
    FILES,
    SERVER_DAYS,
    ensure_certificates,
)
from headgate.flower.keys import make_key

pytestmark = pytest.mark.skipif(
    not shutil.which("openssl"), reason="no openssl on this machine"
)


Own = namedtuple("Own", "authority authority_key server server_key")


def made_in(folder, *hosts):
    assert ensure_certificates(folder, hosts) == []
    return Own(*(folder / name for name in FILES))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_in(tmp_path_factory.mktemp("own"), "fl.example.org", "10.0.0.7")


def shaken(made, authority, name):
    """The subject of the server's certificate as a client sees it that trusts
    `authority` and asks for `name`.
    """
    server, client = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.server, made.server_key)

    def serve():
        try:
            context.wrap_socket(server, server_side=True).close()
        except (ssl.SSLError, OSError):
            server.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        trusting = ssl.create_default_context(cafile=authority)
        trusting.verify_flags |= ssl.VERIFY_X509_STRICT
        with trusting.wrap_socket(client, server_hostname=name) as secure:
            return dict(entry[0] for entry in secure.getpeercert()["subject"])[
                "commonName"
            ]
    finally:
        client.close()
        thread.join()


def test_a_client_accepts_the_server_by_its_names_alone(made, tmp_path):
    for name in ("localhost", "127.0.0.1", "fl.example.org", "10.0.0.7"):
        assert shaken(made, made.authority, name) == "headgate SuperLink"
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shaken(made, made.authority, "elsewhere.example.org")
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(made, made_in(tmp_path).authority, "localhost")


def test_the_server_signs_nobody(made, tmp_path):
    """With the server's key in the place of the authority's, what it signs is not
    trusted.
    """
    for path, name in ((made.server, "ca.crt"), (made.server_key, "ca.key")):
        shutil.copy(path, tmp_path / name)
    forged = made_in(tmp_path)
    chain = tmp_path / "chain.pem"
    chain.write_bytes(forged.server.read_bytes() + made.server.read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(forged._replace(server=chain), made.authority, "localhost")


def test_what_is_there_stays_and_a_further_name_is_signed_by_the_same_authority(
    tmp_path,
):
    own = made_in(tmp_path, "fl.example.org")
    before = [path.read_bytes() for path in own]
    assert ensure_certificates(tmp_path) == []
    assert [path.read_bytes() for path in own] == before
    assert ensure_certificates(tmp_path, ["10.0.0.7"]) == []
    assert [path.read_bytes() for path in own[:2]] == before[:2]
    assert {
        shaken(own, own.authority, name) for name in ("fl.example.org", "10.0.0.7")
    } == {"headgate SuperLink"}


@pytest.mark.parametrize("host", ["a b", "", "-x", "http://x", "x,DNS:y"])
def test_a_host_that_is_none_is_refused_by_name(tmp_path, host):
    with pytest.raises(SettingError, match="--host"):
        ensure_certificates(tmp_path, [host])


@pytest.fixture
def in_days(monkeypatch):
    """Lets so many days pass."""

    def wait(days):
        class Later(datetime):
            @classmethod
            def now(cls, zone=None):
                return datetime.now(zone) + timedelta(days=days)

        monkeypatch.setattr(certificates, "datetime", Later)

    return wait


def test_a_server_certificate_is_renewed_with_a_warning_where_the_authority_can_sign(
    tmp_path, in_days
):
    own = made_in(tmp_path, "fl.example.org")
    authority, server = own.authority.read_bytes(), own.server.read_bytes()
    in_days(SERVER_DAYS - 31)
    assert ensure_certificates(tmp_path) == []
    in_days(SERVER_DAYS - 29)
    assert "server.pem: is renewed" in ensure_certificates(tmp_path)[0]
    assert own.authority.read_bytes() == authority
    assert own.server.read_bytes() != server
    assert shaken(own, own.authority, "fl.example.org") == "headgate SuperLink"


def test_without_the_authoritys_key_a_certificate_is_warned_of_and_then_refused(
    tmp_path, in_days
):
    own = made_in(tmp_path)
    own.authority_key.unlink()
    in_days(SERVER_DAYS - 29)
    (warning,) = ensure_certificates(tmp_path)
    assert f"{own.server}: expires on 20" in warning
    in_days(SERVER_DAYS + 1)
    with pytest.raises(DataError, match=r"server\.pem: expired on 20"):
        ensure_certificates(tmp_path)
    with pytest.raises(DataError, match=r"ca\.key: is not there"):
        ensure_certificates(tmp_path, ["fl.example.org"])
    in_days(AUTHORITY_DAYS + 1)
    with pytest.raises(DataError, match=r"ca\.crt: expired on 20"):
        ensure_certificates(tmp_path)


def test_private_keys_are_for_their_owner_alone_and_a_node_key_is_never_replaced(
    made, tmp_path
):
    key = tmp_path / "nodes" / "3" / "key"
    public = make_key(key)
    for path in (made.authority_key, made.server_key, key):
        assert path.stat().st_mode & 0o777 == 0o600
    private = load_ssh_private_key(key.read_bytes(), password=None)
    assert private.curve.name == "secp384r1"
    assert load_ssh_public_key(public.read_bytes()) == private.public_key()
    with pytest.raises(DataError, match="exists already"):
        make_key(key)
