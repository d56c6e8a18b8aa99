$environment
headgate flower certificates "$certificates"; find "$certificates/server.pem" -mmin -5 | grep -q . || exit 0
nginx -e stderr -c "$folder/nginx.conf" -s reload
pkill --pidfile "$folder/superlink.pid" --full flower-superlink || true  # it is started again
