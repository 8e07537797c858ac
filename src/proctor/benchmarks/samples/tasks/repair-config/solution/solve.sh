#!/bin/sh
set -eu
cd "${WORKSPACE:-/app}"
cat > server.ini <<'CONFIG'
# Main server. Ask operations before changing the host.
[server]
host = 10.0.4.17
port = 8443
workers = 8

[limits]
# two and a half minutes
timeout = 150
max_body = 12582912
keepalive = 15

[paths]
root = /srv/app/www/current
log = /var/log/app.log
tmp = /srv/app/tmp

[features]
gzip = on
http2 = on
cache = off
CONFIG
