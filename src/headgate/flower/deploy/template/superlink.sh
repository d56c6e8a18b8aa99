$environment
headgate flower certificates "$certificates" && echo $$$$ > "$folder/superlink.pid" || exit
exec flower-superlink --host 127.0.0.1 --port $inside --isolation process --enable-supernode-auth \
  --ssl-ca-certfile "$certificates/ca.crt" --ssl-certfile "$certificates/server.pem" --ssl-keyfile "$certificates/server.key" \
  --database "$folder/state.db" --disable-runtime-dependency-installation
