# Of a SuperNode and its SuperExec neither is of use without the other: when one ends, so does the other.
$environment
trap 'trap "" TERM; kill 0; wait' EXIT
flower-supernode --superlink "$superlink" --root-certificates "$authority" --auth-supernode-private-key "$key" \
  --host 127.0.0.1 --port $port --isolation process --node-config \
  'partition-id=$client num-partitions=$clients headgate-store="$folder/store"$keep' &
flower-superexec --insecure --runtime-api-address 127.0.0.1:$port &
wait -n
