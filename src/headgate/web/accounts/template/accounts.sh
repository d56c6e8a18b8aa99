export PATH="$path:$$PATH" PYTHONUNBUFFERED=1
test -r "$folder/database.password" && export PGPASSWORD="$$(cat "$folder/database.password")"
exec headgate serve "$folder" --accounts "$accounts" --tokens "$folder/tokens.json" --port $inside
