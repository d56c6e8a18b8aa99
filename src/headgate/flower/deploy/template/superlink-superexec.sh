$environment HEADGATE_CLIENT_KEYS="$folder/clients.keys"
exec flower-superexec --runtime-api-address 127.0.0.1:$inside --root-certificates "$certificates/ca.crt"
