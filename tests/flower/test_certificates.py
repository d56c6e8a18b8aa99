"""The authority's certificates are accepted by TLS for the names they are made for, and by nobody else's authority."""

import ipaddress
import socket
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from headgate.errors import DataError, SettingError
from headgate.flower.deploy import certificates
from headgate.flower.deploy.certificates import (
    AUTHORITY_DAYS,
    SERVER_DAYS,
    check_certificate,
    make_certificates,
    make_node_key,
)
from headgate.flower.deploy.superlink import SuperLink


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("own"), ["localhost", "127.0.0.1", "fl.example.org", "10.0.0.7"])


def shaken(made, authority, name):
    """The subject of the server's certificate as a client sees it that trusts `authority` and asks for `name`."""
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
            return dict(entry[0] for entry in secure.getpeercert()["subject"])["commonName"]
    finally:
        client.close()
        thread.join()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "fl.example.org", "10.0.0.7"])
def test_a_client_that_trusts_the_authority_accepts_the_server_by_every_name(made, name):
    assert shaken(made, made.authority, name) == "headgate SuperLink"


def test_another_name_is_refused(made):
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shaken(made, made.authority, "elsewhere.example.org")


def test_another_authority_is_refused(made, tmp_path):
    other = make_certificates(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(made, other.authority, "localhost")


def test_the_authority_may_sign_and_the_server_may_not(made):
    authority, server = (x509.load_pem_x509_certificate(path.read_bytes()) for path in (made.authority, made.server))
    for certificate, signs in ((authority, True), (server, False)):
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        assert constraints.critical
        assert constraints.value.ca is signs
        assert certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is signs
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("10.0.0.7")]


def test_private_keys_are_for_their_owner_alone(made, tmp_path):
    make_node_key(tmp_path / "key")
    for path in (made.authority_key, made.server_key, tmp_path / "key"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_another_server_is_signed_by_the_same_authority(tmp_path):
    first = make_certificates(tmp_path)
    trusted = first.authority.read_bytes()
    with pytest.raises(DataError, match="exists already"):
        make_certificates(tmp_path)
    first.server.unlink()
    first.server_key.unlink()
    again = make_certificates(tmp_path, ["fl.example.org"])
    assert again.authority.read_bytes() == trusted
    assert shaken(again, again.authority, "fl.example.org") == "headgate SuperLink"


@pytest.mark.parametrize("host", ["a b", "", "-x", "http://x"])
def test_a_host_that_is_none_is_refused_by_name(tmp_path, host):
    with pytest.raises(SettingError, match="--host"):
        make_certificates(tmp_path, [host])


def test_no_host_is_refused(tmp_path):
    with pytest.raises(SettingError, match="--host"):
        make_certificates(tmp_path, [])


def test_a_node_key_is_a_p384_pair_in_the_form_of_openssh(tmp_path):
    public = make_node_key(tmp_path / "nodes" / "3" / "key")
    private = load_ssh_private_key((tmp_path / "nodes" / "3" / "key").read_bytes(), password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp384r1"
    assert load_ssh_public_key(public.read_bytes()) == private.public_key()
    assert public.read_bytes().startswith(b"ecdsa-sha2-nistp384 ")


def test_a_node_key_is_never_replaced(tmp_path):
    make_node_key(tmp_path / "key")
    before = (tmp_path / "key").read_bytes()
    with pytest.raises(DataError, match="exists already"):
        make_node_key(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == before


@pytest.fixture
def made_ago(tmp_path, monkeypatch):
    """Certificates that were made so many days ago."""

    def make(days, folder="old"):
        class Past(datetime):
            @classmethod
            def now(cls, zone=None):
                return datetime.now(zone) - timedelta(days=days)

        with monkeypatch.context() as then:
            then.setattr(certificates, "datetime", Past)
            return make_certificates(tmp_path / folder)

    return make


def test_a_certificate_that_has_expired_is_refused_by_name_and_date(made_ago):
    ended = datetime.now(UTC) - timedelta(days=1)
    with pytest.raises(DataError, match=rf"server\.pem: expired on {ended:%Y-%m-%d}; headgate flower certificates"):
        check_certificate(made_ago(SERVER_DAYS + 1).server)


def test_an_operator_is_warned_of_a_certificate_that_ends_soon(made_ago):
    ends = datetime.now(UTC) + timedelta(days=29)
    assert f"server.pem: expires on {ends:%Y-%m-%d}" in check_certificate(made_ago(SERVER_DAYS - 29).server)
    assert check_certificate(made_ago(0, "new").server) is None


def test_a_superlink_does_not_start_with_a_certificate_that_has_expired(made_ago, tmp_path):
    own = made_ago(SERVER_DAYS + 1)
    line = [sys.executable, "-m", "headgate.cli", "flower", "superlink", "link", "--certificates", str(own.folder)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    (said,) = done.stderr.splitlines()
    assert f"{own.server}: expired on " in said
    assert not (tmp_path / "link").exists()


@pytest.mark.parametrize("days", [SERVER_DAYS + 1, SERVER_DAYS - 300, AUTHORITY_DAYS + 1])
def test_a_superlink_renews_its_own_certificates_before_they_expire(made_ago, tmp_path, days):
    old, link = made_ago(days, "link/inside"), SuperLink(tmp_path / "link", 1, "mark")
    authority = old.authority.read_bytes()
    link.prepare()
    assert shaken(old, old.authority, "localhost") == "headgate SuperLink"
    assert (old.authority.read_bytes() == authority) == (days < AUTHORITY_DAYS)
    now = [path.read_bytes() for path in (old.authority, old.server, old.server_key)]
    link.prepare()
    assert [path.read_bytes() for path in (old.authority, old.server, old.server_key)] == now
    assert check_certificate(old.server) is None
