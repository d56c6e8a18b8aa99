"""The front as a configuration of nginx, for those who have one already: the same paths and the same limits."""

from pathlib import Path

from headgate.flower.deploy.certificates import Certificates
from headgate.flower.deploy.front import (
    BODY_SECONDS,
    CONNECTIONS,
    HEAD_SECONDS,
    KEEP_SECONDS,
    MOST_BYTES,
    PATHS,
    REQUEST_SECONDS,
)

FILE = "nginx.conf"


def nginx_text(certificates: Certificates, port: int, name: str, superlink: int, authority: Path) -> str:
    """To be included in nginx's `http { … }`. The SuperLink is asked for a path that is written here, not for what came.

    nginx does not check signatures, so its limit is for an address, not for a key.
    """
    paths = "\n".join(
        f"    location = {path} {{ limit_except POST {{ deny all; }} proxy_pass https://127.0.0.1:{superlink}{path}; }}"
        for path in sorted(PATHS)
    )
    return f"""# A front by nginx for the SuperLink on 127.0.0.1:{superlink}: include it in http {{ … }}, and start the
# SuperLink with --no-front. SuperNodes alone come through, and only to Flower's fleet.
limit_conn_zone $binary_remote_addr zone=headgate:1m;
server {{
    listen {port} ssl;
    server_name {name};
    server_tokens off;
    ssl_certificate {certificates.server.resolve()};
    ssl_certificate_key {certificates.server_key.resolve()};
    ssl_protocols TLSv1.2 TLSv1.3;
    client_max_body_size {MOST_BYTES // 2**20}m;
    client_header_timeout {HEAD_SECONDS:g}s;
    client_body_timeout {BODY_SECONDS:g}s;
    reset_timedout_connection on;
    keepalive_timeout {KEEP_SECONDS}s;
    send_timeout {KEEP_SECONDS}s;
    limit_conn headgate {CONNECTIONS // 10};
    proxy_http_version 1.1;
    proxy_set_header Host localhost;
    proxy_set_header Connection "";
    proxy_read_timeout {REQUEST_SECONDS:g}s;
    proxy_ssl_trusted_certificate {authority.resolve()};
    proxy_ssl_verify on;
    proxy_ssl_name localhost;
    location / {{ return 404; }}
{paths}
}}
"""
